package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// measured is for how long each load is measured.
const measured = 10 * time.Second

// measure asks weir at most 500 times a second while a crowd does something else, and prints how long calls took and
// what the process holds at most.
func measure(b *testing.B, w *weirtest.Weir, name string, crowd int, during func(stop *atomic.Bool)) {
	b.Helper()
	var stop atomic.Bool
	var others sync.WaitGroup
	for range crowd {
		others.Go(func() { during(&stop) })
	}
	c, took := w.Client(b), []time.Duration(nil)
	for tick, began := time.NewTicker(2*time.Millisecond), time.Now(); time.Since(began) < measured; <-tick.C {
		asked := time.Now()
		if _, err := c.Hit("basic/1", "ann"); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(asked))
	}
	stop.Store(true)
	others.Wait()
	slices.Sort(took)
	at := func(share float64) time.Duration { return took[int(share*float64(len(took)-1))] }
	b.Logf("%-16s %5d calls: p50 %v  p90 %v  p99 %v  p99.9 %v; memory at most %d MB", name, len(took), at(0.5), at(0.9), at(0.99),
		at(0.999), w.PeakMemory(b)/1e6)
}

// BenchmarkCallsBesideReloads tells how long calls take while nothing changes, and while one of ten files with ten
// thousand rules is written every second. `go test ./cmd/weir/e2e -run none -bench BesideReloads -benchtime 1x`
func BenchmarkCallsBesideReloads(b *testing.B) {
	w := weirtest.Serve(b, tenAnHour)
	rules := func(domain, perHour int) string {
		text := fmt.Sprintf("domain: shop%d\ndescriptors:\n- key: plan\n  value: basic\n  descriptors:\n", domain)
		for i := range 1000 {
			text += fmt.Sprintf("  - { key: user, value: u%d, rate_limit: { unit: hour, requests_per_unit: %d } }\n", i, perHour)
		}
		return text
	}
	for domain := range 10 {
		w.Write(b, fmt.Sprintf("shop%d.yaml", domain), rules(domain, 1))
	}
	w.Says(b, "rules=10001 ")
	for n := range b.N {
		measure(b, w, "alone", 0, nil)
		measure(b, w, "beside reloads", 1, func(stop *atomic.Bool) {
			for i := 1; !stop.Load(); i++ {
				w.Write(b, "shop0.yaml", rules(0, 1000*n+i))
				time.Sleep(time.Second)
			}
		})
		b.Logf("%d configurations were loaded so far", strings.Count(w.Log.String(), `msg="configuration loaded"`))
	}
}

// BenchmarkCallsBesideQueries tells how long calls take while nobody asks about the past, and while eight clients ask
// for as much as they get: a year of 300 busy series by the hour. `go test ./cmd/weir/e2e -run none -bench
// BesideQueries -benchtime 1x`
func BenchmarkCallsBesideQueries(b *testing.B) {
	data := b.TempDir()
	fillYear(b, data, 300)
	for _, bounds := range [][2]string{{"1", "5000000"}, {"2", "5000000"}} {
		b.Run(fmt.Sprintf("concurrency %s samples %s", bounds[0], bounds[1]), func(b *testing.B) {
			for range b.N {
				w := weirtest.Serve(b, tenAnHour, "DATA_DIR="+data, "DRAIN_DELAY=0s",
					"HISTORY_QUERY_CONCURRENCY="+bounds[0], "HISTORY_QUERY_MAX_SAMPLES="+bounds[1])
				measure(b, w, "alone", 0, nil)
				for _, query := range []string{
					`topk(10, sum by (path) (rate(weir_hits_total[1h])))`, // many windows
					`weir_hits_total or weir_hits_peak`,                   // many samples
				} {
					besideQuery(b, w, query)
				}
				w.Drain(b)
			}
		})
	}
}

func besideQuery(b *testing.B, w *weirtest.Weir, query string) {
	var answered, refused atomic.Int64
	measure(b, w, "beside "+query[:4], 8, func(stop *atomic.Bool) {
		now := time.Now().Unix()
		for !stop.Load() {
			response, err := http.PostForm(w.Admin+"/prometheus/api/v1/query_range", url.Values{"query": {query},
				"start": {strconv.FormatInt(now-365*86400, 10)}, "end": {strconv.FormatInt(now, 10)}, "step": {"3600"}})
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if answered.Add(1); response.StatusCode != 200 {
				refused.Add(1)
			}
		}
	})
	b.Logf("                 %d queries, %d of them refused", answered.Load(), refused.Load())
}

// fillYear fills a folder with a year of series that were busy all the time.
func fillYear(b *testing.B, dir string, series int) {
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Retention: history.DefaultRetention()})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for n := range series {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("user/n=", n)}
		batch := history.Batch{Writer: fmt.Sprint("w", n)}
		for age := int64(0); age < 400*1440; {
			batch.Increments = append(batch.Increments, history.Increment{ID: id, Minute: now.Unix()/60 - age, Hits: uint64(1 + age%7)})
			switch {
			case age < 1440:
				age++
			case age < 7*1440:
				age += 5
			case age < 30*1440:
				age += 60
			default:
				age += 1440
			}
			if len(batch.Increments) == history.MaxBatch || age >= 400*1440 {
				batch.Seq, batch.After = batch.Seq+1, batch.Seq
				if _, err := store.Apply(b.Context(), id.Partition(), batch); err != nil {
					b.Fatal(err)
				}
				batch.Increments = nil
			}
		}
	}
	_, err = store.Downsample(b.Context(), now)
	if err := errors.Join(err, store.Close()); err != nil {
		b.Fatal(err)
	}
}
