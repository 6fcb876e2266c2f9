package historytest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
)

// prepare fills a store so that the next batch rolls a series early and the next job moves all tiers and drops days.
func prepare(t *testing.T, open Open) *bench {
	keep := history.DefaultRetention()
	keep.MaxPoints = 30
	keep.Ages[history.Days] = 60 * day
	b := newBench(t, open, keep)
	for _, id := range []history.ID{shop, sibling(shop), {Domain: "other"}} {
		for _, back := range []int64{0, 70, 26 * 60, 9 * 1440, 45 * 1440, 90 * 1440} {
			for n := range int64(5) {
				b.count(history.Increment{ID: id, Minute: b.minute() - back - n, Hits: 1 + uint64(back)})
			}
		}
	}
	return b
}

// crowded returns a batch that brings a prepared series above its points.
func (b *bench) crowded() history.Batch {
	batch := history.Batch{Writer: "crowded", Seq: 1}
	for n := range int64(40) {
		batch.Increments = append(batch.Increments, history.Increment{ID: shop, Minute: b.minute() - 3000 - n, Hits: 3})
	}
	return batch
}

// testDeathAtSteps ends the goroutine that works for the store at its first step, then at its second, and so on, as if
// its process had died there. Whoever comes next, to read or to go on, must find all hits, each once.
func testDeathAtSteps(t *testing.T, open Open) {
	b := prepare(t, open)
	deaths := make(map[string]int)
	batch := b.crowded()
	b.killEach(deaths, func() { _, _ = b.store.Apply(context.Background(), shop.Partition(), batch) })
	b.apply(shop.Partition(), batch)
	b.naive.apply(batch.Increments, b.now())
	if got, want := b.query(only(shop))[shop].Lifetime, b.naive.series[shop].lifetime; got != want {
		t.Errorf("after deaths while a batch was applied, and replays, the series has %d hits, want %d", got, want)
	}
	for range 4 {
		b.killEach(deaths, func() { _, _ = b.store.Downsample(context.Background(), b.now()) })
		b.downsampleStore(b.now())
		b.naive.downsample(b.now().Unix())
		b.wait(20 * day)
	}
	b.agreeInSums()
	t.Logf("died at %v", deaths)
}

// killEach does work again and again, ended at a later step each time, until it comes to its end.
func (b *bench) killEach(deaths map[string]int, work func()) {
	b.t.Helper()
	for last, survived := 1, false; !survived; last++ {
		step := 0
		b.onStep(func(name string) {
			if step++; step == last {
				deaths[name]++
				runtime.Goexit()
			}
		})
		ended := make(chan bool, 1)
		go func() {
			whole := false
			defer func() { ended <- whole }()
			work()
			whole = true
		}()
		select {
		case survived = <-ended:
		case <-time.After(process.Hang):
			b.t.Fatal("the store hangs after a death at a step")
		}
		b.onStep(func(string) {})
		if err := p1(b.store); err != nil {
			b.t.Fatal(fmt.Errorf("after a death at step %d: %w", last, err))
		}
		if last > 1000 {
			b.t.Fatal("a thousand deaths, and the work is still not done: each attempt must get further")
		}
	}
}
