package historytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var batchCases = []promiseCase{
	{"PositionsOfWritersExpire", testWriterTTL},
	{"WhatGoesAboveMaxTotalIsRefusedAndALostReplyHidesNoRefusal", testRefused},
	{"SeriesWithOddNamesStayApart", testOddNames},
	{"AQueryFindsWhatItAsksForAndEndsWithTheErrorOfYield", testQuery},
}

// shop is a series for tests that need no more than one.
var shop = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Within}

// sibling returns another series of the same partition.
func sibling(of history.ID) history.ID {
	for n := 0; ; n++ {
		id := history.ID{Domain: of.Domain, Path: fmt.Sprintf("sibling/%d", n), Outcome: history.Over}
		if id.Partition() == of.Partition() {
			return id
		}
	}
}

func testOnce(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	p, minute, other := shop.Partition(), b.minute(), sibling(shop)
	batch := func(writer string, seq, after, hits uint64) history.Batch {
		return history.Batch{Writer: writer, Seq: seq, After: after, Increments: []history.Increment{
			{ID: shop, Minute: minute, Hits: hits}, {ID: other, Minute: minute - 1, Hits: 2 * hits}}}
	}
	empty, probe := history.Batch{Writer: "eve", Seq: 4, After: 3}, history.Batch{Writer: "ann"}
	const applied, duplicate, gap = history.Applied, history.Duplicate, history.Gap
	for _, c := range []struct {
		promise string
		send    history.Batch
		status  history.ApplyStatus
		last    uint64
		total   uint64 // of shop; other has twice as many
	}{
		{"a question about a writer that nobody heard of", probe, duplicate, 0, 0},
		{"the first is counted", batch("ann", 1, 0, 5), applied, 1, 5},
		{"a question tells the position", probe, duplicate, 1, 5},
		{"a replay is a duplicate", batch("ann", 1, 0, 5), duplicate, 1, 5},
		{"the next is counted", batch("ann", 2, 1, 10), applied, 2, 15},
		{"an older replay is a duplicate", batch("ann", 1, 0, 5), duplicate, 2, 15},
		{"one that follows what is not there waits", batch("ann", 5, 4, 100), gap, 2, 15},
		{"what was between has been given up", batch("ann", 5, 2, 100), applied, 5, 115},
		{"what was given up is a duplicate from now on", batch("ann", 3, 2, 7), duplicate, 5, 115},
		{"one may follow less than is there", batch("ann", 7, 3, 1), applied, 7, 116},
		{"another writer has numbers of its own", batch("bob", 1, 0, 1000), applied, 1, 1116},
		{"a new writer may not begin in the middle", batch("eve", 3, 2, 1), gap, 0, 1116},
		{"unless it gave up the beginning", batch("eve", 3, 0, 1), applied, 3, 1117},
		{"an empty batch is a batch", empty, applied, 4, 1117},
	} {
		if got, want := b.apply(p, c.send), (history.ApplyResult{Status: c.status, Last: c.last}); got != want {
			t.Fatalf("%s: the answer is %+v, want %+v", c.promise, got, want)
		}
		got := b.query(Everything())
		if got[shop].Lifetime != c.total || got[other].Lifetime != 2*c.total {
			t.Fatalf("%s: the series have %d and %d hits, want %d and %d: a batch is counted once, and whole", c.promise,
				got[shop].Lifetime, got[other].Lifetime, c.total, 2*c.total)
		}
	}
	if got := b.apply(p+1, probe); got.Last != 0 {
		t.Errorf("the next partition says that it holds batch %d: each partition has numbers of its own", got.Last)
	}
	if err := p1(b.store); err != nil {
		t.Error(err)
	}
}

func testWriterTTL(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	p := shop.Partition()
	batch := history.Batch{Writer: "gone", Seq: 1,
		Increments: []history.Increment{{ID: shop, Minute: b.minute(), Hits: 3}}}
	b.apply(p, batch)
	b.wait(history.WriterTTL - time.Hour)
	young := batch
	young.Writer = "young"
	b.apply(p, young)
	for _, c := range []struct {
		promise string
		wait    time.Duration
		gone    uint64 // last number that is known of it
	}{{"too early to delete", 0, 1}, {"one of two is deleted", 2 * time.Hour, 0}} {
		b.wait(c.wait)
		b.downsampleStore(b.now())
		if got := b.apply(p, history.Batch{Writer: "gone"}).Last; got != c.gone {
			t.Fatalf("%s: of the old writer, number %d is known, want %d", c.promise, got, c.gone)
		}
		if got := b.apply(p, history.Batch{Writer: "young"}).Last; got != 1 {
			t.Fatalf("%s: of the young writer, number %d is known, want 1: its replay would count twice",
				c.promise, got)
		}
	}
	if got := b.query(Everything())[shop].Lifetime; got != 6 {
		t.Fatalf("with the writers, hits were lost: %d are left, want 6", got)
	}
}

// testRefused fills a series and sends each batch again, as a writer does whose reply was lost: it must hear what the
// first reply said. Some hits are ahead of the clock, and count now.
func testRefused(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	p, minute, other := shop.Partition(), b.minute(), sibling(shop)
	const most = uint64(history.MaxTotal)
	batch := func(seq, hits, more uint64) history.Batch {
		return history.Batch{Writer: "ann", Seq: seq, After: seq - 1, Increments: []history.Increment{
			{ID: shop, Minute: minute + 1, Hits: hits}, {ID: other, Minute: minute, Hits: 1}, {ID: shop, Minute: minute - 1, Hits: more}}}
	}
	probe, beyond := history.Batch{Writer: "ann"}, history.Batch{Writer: "ann", Seq: 9, After: 8}
	const applied, duplicate, gap = history.Applied, history.Duplicate, history.Gap
	for _, c := range []struct {
		promise string
		send    history.Batch
		want    history.ApplyResult
		total   uint64 // of shop; other has a hit of each batch
	}{
		{"one of two fits", batch(1, most-10, 11), history.ApplyResult{Status: applied, Last: 1, Refused: 11}, most - 10},
		{"its replay says the same", batch(1, most-10, 11), history.ApplyResult{Status: duplicate, Last: 1, Refused: 11}, most - 10},
		{"a question too", probe, history.ApplyResult{Status: duplicate, Last: 1, Refused: 11}, most - 10},
		{"and a gap", beyond, history.ApplyResult{Status: gap, Last: 1, Refused: 11}, most - 10},
		{"neither fits", batch(2, most, most), history.ApplyResult{Status: applied, Last: 2, Refused: 2 * most}, most - 10},
		{"its replay says it to the last hit", batch(2, most, most), history.ApplyResult{Status: duplicate, Last: 2, Refused: 2 * most}, most - 10},
		{"all of the next fits", batch(3, 4, 6), history.ApplyResult{Status: applied, Last: 3}, most},
		{"its replay refuses nothing", batch(3, 4, 6), history.ApplyResult{Status: duplicate, Last: 3}, most},
		{"an older replay is told of the last", batch(2, most, most), history.ApplyResult{Status: duplicate, Last: 3}, most},
		{"it is full", batch(4, 1, 2), history.ApplyResult{Status: applied, Last: 4, Refused: 3}, most},
	} {
		if got := b.apply(p, c.send); got != c.want {
			t.Errorf("%s: the answer is %+v, want %+v: what is not told is neither in the store nor counted", c.promise, got, c.want)
		}
		got := b.query(Everything())
		if got[shop].Lifetime != c.total || got[other].Lifetime != c.want.Last {
			t.Errorf("%s: the series have %d and %d hits, want %d and %d: what is refused must not keep others out",
				c.promise, got[shop].Lifetime, got[other].Lifetime, c.total, c.want.Last)
		}
		if err := conserved(got[shop]); err != nil {
			t.Errorf("%s: %v", c.promise, err)
		}
		if points := got[shop].Points; points[len(points)-1].Start != minute*60 {
			t.Errorf("%s: the points are %+v, want hits ahead of the clock in the present minute", c.promise, points)
		}
	}
	b.wait(history.WriterTTL - time.Hour)
	b.downsampleStore(b.now())
	if got, want := b.apply(p, probe), (history.ApplyResult{Status: duplicate, Last: 4, Refused: 3}); got != want {
		t.Errorf("within a week the position has become %+v, want %+v", got, want)
	}
	b.setTime(start.AddDate(11, 0, 0))
	b.downsampleStore(b.now())
	if got := b.apply(p, probe); got.Last != 0 {
		t.Errorf("after a week the position is %+v, want it deleted, with its refusal", got)
	}
	if s := b.query(only(shop))[shop]; s.Expired != most || len(s.Points) != 0 {
		t.Errorf("after all tiers %d have expired and %d points are left, want %d and none: a count lost digits on its way",
			s.Expired, len(s.Points), most)
	}
}

// oddNames are parts of IDs that have broken something somewhere.
var oddNames = []string{"", "a", "b", "a\x00", "\x00a", "a\nb", "a:b", "{a}",
	"a|b", "%2F", "*", "\xff\xfe", "ß∂ƒ 漢字 🙂",
	"'; --", "a\r\n$1\r\n", strings.Repeat("long", 2560), history.OtherValue}

func testOddNames(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	var increments []history.Increment
	add := func(id history.ID) {
		increments = append(increments, history.Increment{ID: id, Minute: b.minute(), Hits: uint64(len(increments)) + 1})
	}
	for _, x := range oddNames {
		for _, y := range oddNames {
			add(history.ID{Domain: x, Path: y, Value: "v"})
			add(history.ID{Domain: "d", Path: x, Value: y, Outcome: history.Shadow})
		}
	}
	b.count(increments...)
	b.agree()
	b.wait(400 * 24 * time.Hour)
	b.downsample()
	b.agree()
	for _, x := range oddNames {
		b.agreeOn(only(history.ID{Domain: "d", Path: x, Value: x, Outcome: history.Shadow}))
	}
}

func testQuery(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	var increments []history.Increment
	for n := range 600 {
		id := history.ID{Domain: fmt.Sprint("d", n%3), Path: fmt.Sprint("p", n%100),
			Outcome: history.Outcome(n % history.Outcomes)}
		if n >= 200 {
			id.Value = fmt.Sprint(n)
		}
		increments = append(increments, history.Increment{ID: id, Minute: b.minute() - int64(n%90), Hits: uint64(n) + 1})
	}
	b.count(increments...)
	b.downsample()
	text := func(s string) *string { return &s }
	now := b.now().Unix()
	for _, r := range [][2]int64{{Everything().From, Everything().To}, {now - 3600, now}, {now - 1, now}, {now, now}, {0, 60},
		{now - 7200, now - 3601}} {
		b.agreeOn(history.Query{From: r[0], To: r[1]})
	}
	for _, q := range []history.Query{
		{Domain: text("d1")},
		{Domain: text("d1"), Path: text("p7")},
		{Path: text("p7"), Value: text("")},
		{Value: text("345")},
		{Domain: text("nowhere")},
		{Domain: text("")},
		{Outcomes: []history.Outcome{history.Over}},
		{Path: text("p1"), Outcomes: []history.Outcome{history.Over, history.Shadow, history.Over}},
	} {
		q.From, q.To = now-3600, now
		b.agreeOn(q)
	}
	enough, calls := errors.New("enough"), 0
	err := b.store.Query(context.Background(), Everything(), func(history.Series) error {
		if calls++; calls == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || calls != 3 {
		t.Errorf("yield's error at its third call: Query calls it %d times and returns %v, want 3 and that error", calls, err)
	}
}
