package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

// decade is a history of as many series as a test wants, all with the points of one ledger: ten years by the day, and
// what is finer. It would take minutes to count.
type decade struct {
	history.Store
	of     *history.Ledger
	series int
	each   func(n int) // called before each series

	asking context.Context // of the query that reads
}

func newDecade(t testing.TB, series int, each func(n int)) *decade {
	d := &decade{of: new(history.Ledger), series: series, each: each}
	last, keep := someday.Unix()/minute, history.DefaultRetention()
	keep.MaxPoints = 1 << 20
	for _, c := range []struct{ days, apart int64 }{{3650, 1440}, {30, 60}, {7, 5}, {1, 1}} {
		for at := last - c.days*1440; at <= last; at += c.apart {
			if err := d.of.Apply(d.of, &history.Increment{Minute: at, Hits: 3}, &keep, someday.Unix(), new(history.ApplyResult)); err != nil {
				t.Fatal(err)
			}
		}
	}
	historytest.DownsampleLedger(d.of, keep, someday)
	return d
}

func (d *decade) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	d.asking = ctx
	for n := range d.series {
		d.each(n)
		if err := yield(d.of.Series(history.ID{Domain: "shop", Path: fmt.Sprint(n)}, q.From, q.To)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decade) engine(change func(*Config)) *Engine {
	c := Config{Store: d, Rules: noRules, Now: func() time.Time { return someday }, MaxSamples: 1_000_000, Timeout: time.Hour}
	change(&c)
	return New(c)
}

// live returns how many bytes are in use.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Ten years of 10,000 series are 120 million samples. The query ends with Prometheus's error, and at no time has held
// more than its bound.
func TestQueryForAllEndsAtItsBound(t *testing.T) {
	var most, before int64
	reads := 0
	d := newDecade(t, 10_000, func(n int) {
		if reads++; reads%34 == 0 {
			most = max(most, live()-before)
		}
	})
	const bound = 1_000_000
	e := d.engine(func(c *Config) { c.MaxSamples = bound })
	texts := []string{"sum(rate(weir_hits_total[1d]))", "weir_hits_total - weir_hits_total offset 30d + weir_hits_total offset 1y",
		`{__name__=~".+"}`, "weir_hits_total"}
	if testing.Short() {
		texts = texts[:2]
	}
	for _, text := range texts {
		before, most, reads = live(), 0, 0
		result := ranged(t, e, text, someday.AddDate(-10, 0, 0).Unix(), someday.Unix(), 8*hour)
		if want := promql.ErrTooManySamples(phase); !errors.Is(result.Err, want) {
			t.Errorf("%s ends with %v, want %v", text, result.Err, want)
		}
		t.Logf("%s: %d series read, at most %.1f MB held; the bound is %.1f MB", text, reads, float64(most)/1e6, float64(bound*sampleSize)/1e6)
		if most > 2*bound*int64(sampleSize) {
			t.Errorf("%s: %d bytes were in use, twice its bound and more: a process that limits must not run out of memory", text, most)
		}
	}
}

// Names take memory as samples do, in queries and in lists of labels.
func TestNamesAreBoundedLikeSamples(t *testing.T) {
	d := newDecade(t, 100_000, func(int) {})
	keep, one := history.DefaultRetention(), &history.Increment{Minute: someday.Unix()/minute - 10, Hits: 1}
	d.of = new(history.Ledger)
	if err := d.of.Apply(d.of, one, &keep, someday.Unix(), new(history.ApplyResult)); err != nil {
		t.Fatal(err)
	}
	e := d.engine(func(c *Config) { c.MaxSamples = 100_000 })
	want := promql.ErrTooManySamples(phase)
	if r := instant(t, e, "count(weir_hits_total)", someday.Unix()); !errors.Is(r.Err, want) {
		t.Errorf("a count of 100,000 series ends with %v, want %v", r.Err, want)
	}
	all := e.Querier().Select(t.Context(), false, &storage.SelectHints{End: someday.UnixMilli(), Func: "series"})
	if all.Next() || !errors.Is(all.Err(), want) {
		t.Errorf("a list of 100,000 series ends with %v, want %v", all.Err(), want)
	}
}

// Forty of these around each other would make names of terabytes, of one series.
func TestGrowingNamesAreBoundedLikeSamples(t *testing.T) {
	p, e := few(t)
	nest := func(inner, before, after string) string {
		return strings.Repeat(before, 40) + inner + strings.Repeat(after, 40)
	}
	for _, text := range []string{
		nest("weir_hits_peak", "label_join(", `, "path", "", "path", "path")`),
		nest("weir_hits_peak", "(label_replace(", `, "path", "$0$0", "path", ".*") or weir_hits_peak)`),
		nest("vector(1)", "label_replace(", `, "path", ("x$0$0"), "path", ".*")`),
		"last_over_time(" + nest("weir_hits_peak", "label_join(", `, "path", "", "path", "path")`) + "[1h:1m])",
	} {
		if r := instant(t, e, text, p.clock.Load()); r.Err != nil && strings.Contains(r.Err.Error(), "parse") {
			t.Errorf("%.80s… cannot be read: %v", text, r.Err)
		} else if want := promql.ErrTooManySamples(phase); !errors.Is(r.Err, want) {
			t.Errorf("%.80s… ends with %v, want %v: a process that limits must not run out of memory", text, r.Err, want)
		}
	}
	flat := nest("weir_hits_peak", "label_replace(", `, "path", "$1", "path", "(.*)")`)
	if r := instant(t, e, flat, p.clock.Load()); r.Err != nil {
		t.Errorf("labels that do not grow end with %v, want an answer", r.Err)
	}
}

func TestQueriesWithoutABoundAreRefused(t *testing.T) {
	e := newPast(t, history.DefaultRetention()).engine()
	for what, text := range map[string]string{
		"smoothed":     `sum(weir_hits_total smoothed)`,
		"count_values": `sum(count_values("v", weir_hits_peak))`,
	} {
		if _, err := e.Instant(t.Context(), text, someday); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s is answered with %v, want an error that names %s: a process that limits must not run out of memory", text, err, what)
		}
	}
}

func TestHostileQueryTextIsAnError(t *testing.T) {
	e := newPast(t, history.DefaultRetention()).engine()
	matching := func(pattern string) string { return `weir_hits_total{path=~"` + pattern + `"}` }
	for text, want := range map[string]string{
		"1" + strings.Repeat("+1", 500_000):                                   "tokens",
		strings.Repeat("-", 1_000_000) + "1":                                  "tokens",
		strings.Repeat("abs(", 300_000) + "x":                                 "tokens",
		strings.Repeat("(", 300_000):                                          "tokens",
		matching(strings.Repeat("b{1000}", 100)):                              "patterns",
		matching("(" + strings.Repeat("b", 600) + "){30}{30}"):                "patterns",
		matching("(?i)" + strings.Repeat(`\\pL`, 110)):                        "patterns",
		matching(strings.Repeat("[^a]", 1100)):                                "patterns",
		matching(`\x7b1000}` + strings.Repeat(`c\x7b1000}`, 200)):             "patterns",
		matching(strings.Repeat("a|", 200_000)):                               "", // as Grafana writes
		matching(strings.Repeat(`path=%2F\\{id\\}\\[0\\]|`, 5_000)):           "",
		matching("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|/v[0-9]/.{1,64}"): "", // as people write
	} {
		if _, err := e.Instant(t.Context(), text, someday); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s… is answered with %v, want that it has too many %s: a process that limits must not run out of memory", text, err, want)
		}
	}
	for _, text := range []string{"max_over_time(vector(1)[100y:1s])", "max_over_time(max_over_time(vector(1)[1y:1y])[290y:1ms])",
		"sum_over_time(sum_over_time(vector(1)[1d:1d])[100y:1s] @ 0)", "max_over_time(max_over_time(vector(1)[1y:1m])[1y:1m])"} {
		if r := instant(t, e, text, someday.Unix()); r.Err != promql.ErrTooManySamples(phase) {
			t.Errorf("%s ends with %v, want that it would need too many samples", text, r.Err)
		}
	}
}

// The error is the same wherever the query is when its time is over, or nobody waits any more.
func TestQueryEndsWithTimeoutOrCaller(t *testing.T) {
	d := newDecade(t, 50, func(int) {})
	var gone promql.ErrQueryCanceled
	var late promql.ErrQueryTimeout
	for _, c := range []struct {
		name    string
		timeout time.Duration
		want    any
		atOnce  bool // or while it reads
		stop    func(leave context.CancelFunc, q promql.Query)
	}{
		{"whose caller leaves", time.Hour, &gone, false, func(leave context.CancelFunc, _ promql.Query) { leave() }},
		{"whose caller has gone", time.Hour, &gone, true, func(leave context.CancelFunc, _ promql.Query) { leave() }},
		{"that is canceled", time.Hour, &gone, false, func(_ context.CancelFunc, q promql.Query) { q.Cancel() }},
		{"without time", time.Nanosecond, &late, true, func(context.CancelFunc, promql.Query) {}},
		{"whose time is over", 100 * time.Millisecond, &late, false, func(context.CancelFunc, promql.Query) { <-d.asking.Done() }},
	} {
		ctx, leave := context.WithCancel(t.Context())
		q, err := d.engine(func(e *Config) { e.Timeout = c.timeout }).Instant(ctx, "sum(rate(weir_hits_total[1d]))", someday)
		if err != nil {
			t.Fatal(err)
		}
		stopped := c.atOnce
		if c.atOnce {
			c.stop(leave, q)
		}
		d.each = func(n int) {
			if stopped && n > 7 {
				t.Errorf("series %d is read of a query %s", n, c.name)
			} else if n == 7 {
				stopped = true
				c.stop(leave, q)
			}
		}
		if err := q.Exec(ctx).Err; !errors.As(err, c.want) {
			t.Errorf("a query %s ends with %v, want a %T", c.name, err, c.want)
		}
		q.Close()
		leave()
	}
}

// broken is a store that does not answer.
type broken struct{ history.Store }

var errBroken = errors.New("redis 10.0.0.1:6379: connection refused")

func (broken) Query(context.Context, history.Query, func(history.Series) error) error {
	return errBroken
}

func TestFailingStoreIsAStorageError(t *testing.T) {
	e := newPast(t, history.DefaultRetention()).engine(func(c *Config) { c.Store = broken{} })
	var failed promql.ErrStorage
	if err := instant(t, e, "weir_hits_total", someday.Unix()).Err; !errors.As(err, &failed) || !strings.Contains(err.Error(), errBroken.Error()) {
		t.Errorf("the query ends with %v, want a %T that says why", err, failed)
	}
}
