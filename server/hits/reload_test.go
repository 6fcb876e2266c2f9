package hits

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Configurations come and go, most of their rules distinct; requests hit some rules of the one that was in force when
// they began, and count only later, some of them after it has gone; drains come at any time. Whatever the order, each hit
// is handed out once and under its rule, and what is kept does not grow with what has gone.
func TestReloadsLoseNoHitAndKeepNothing(t *testing.T) {
	const rulesEach = 50
	reloads := 40
	if testing.Short() {
		reloads = 12
	}
	w := &reloading{recorder: New(3), configs: make([]*descriptors.Config, reloads)}
	for i := range w.configs {
		w.configs[i] = parse(t, distinct(i, rulesEach))
	}
	w.reload(0)
	var requests sync.WaitGroup
	for run := range w.begun {
		requests.Go(func() { w.request(run) })
	}
	found := make(map[history.ID]uint64)
	drain := func(at time.Time) {
		w.recorder.Drain(at, func(id history.ID, hits uint64) { found[id] += hits })
	}
	now, most := noon, 0
	for i := 1; i < reloads; i++ {
		w.reload(i)
		for range 20 { // so that the grace is over before the next reload
			w.rest()
			now = now.Add(15 * time.Second)
			drain(now)
		}
		most = max(most, len(w.recorder.all()))
	}
	w.stop.Store(true)
	requests.Wait()
	drain(now)
	series := 0
	for id, hits := range w.counted.Range {
		series++
		if got, want := found[id.(history.ID)], hits.(*atomic.Uint64).Load(); got != want {
			t.Errorf("%d of %d hits of %+v were handed out; want each of them once", got, want, id)
		}
	}
	if len(found) != series {
		t.Errorf("%d series were handed out, %d were hit", len(found), series)
	}
	if bound := 2*(rulesEach+2) + 2; most > bound { // two configurations: a request may be as late as one reload
		t.Errorf("up to %d rules had counters, want at most %d: those of %d reloads would fill memory", most, bound, reloads)
	}
	t.Logf("%d series were hit in %d reloads; at most %d rules had counters", series, reloads, most)
}

// distinct is a configuration whose rules are not in any other, but for two.
func distinct(number, rules int) string {
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range rules {
		fmt.Fprintf(&text, "- {key: user, value: u%d-%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", number, i)
	}
	return text.String() + "- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
		"- {key: tenant, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"
}

// reloading is a recorder under reloads and requests.
type reloading struct {
	recorder *Recorder
	configs  []*descriptors.Config
	inForce  atomic.Pointer[inForce]
	allowed  atomic.Uint64    // requests that each sender may have begun
	begun    [4]atomic.Uint64 // by sender
	stop     atomic.Bool
	counted  sync.Map // history.ID to *atomic.Uint64
}

type inForce struct {
	number int
	config *descriptors.Config
	table  *Table
}

func (w *reloading) reload(i int) {
	w.inForce.Store(&inForce{i, w.configs[i], w.recorder.Table(w.configs[i])})
}

// rest is a quarter of a minute, in which each sender begins some requests; the last of them may still be under way when
// it returns. So no request becomes older than one and a half minutes.
func (w *reloading) rest() {
	begun := w.allowed.Add(inFlight/5) - inFlight/5
	for i := range w.begun {
		for w.begun[i].Load() < begun {
			runtime.Gosched()
		}
	}
}

const inFlight = 25 // requests of one sender

// request sends requests, each of which counts only when some others have begun.
func (w *reloading) request(sender int) {
	type late struct {
		counter *Counter
		id      history.ID
	}
	var pending []late
	count := func(one late) {
		one.counter.Admit(1, 0)
		n, _ := w.counted.LoadOrStore(one.id, new(atomic.Uint64))
		n.(*atomic.Uint64).Add(1)
	}
	r := rand.New(rand.NewPCG(uint64(sender), 13))
	for !w.stop.Load() {
		if w.begun[sender].Load() == w.allowed.Load() {
			runtime.Gosched()
			continue
		}
		now := w.inForce.Load()
		key, value, id := "user", fmt.Sprintf("u%d-%d", now.number, r.IntN(100)), history.ID{Domain: "shop", Path: "user"}
		if r.IntN(10) == 0 {
			key, value = "tenant", fmt.Sprint(r.IntN(3))
		}
		d := descriptors.Descriptor{{Key: key, Value: value}}
		rule := now.config.Match("shop", d).Rule
		id.Path = rule.Path
		if len(rule.Values) > 0 {
			id.Value = string(rule.AppendValue(nil, d))
		}
		pending = append(pending, late{now.table.Counter(rule, "shop", d), id})
		if len(pending) > inFlight {
			count(pending[0])
			pending = slices.Delete(pending, 0, 1)
		}
		w.begun[sender].Add(1)
	}
	for _, one := range pending {
		count(one)
	}
}
