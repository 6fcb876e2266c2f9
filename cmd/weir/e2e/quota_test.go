package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/rlqs"
)

// quotaEnvoy is an Envoy that limits by itself, and what it has let through and denied of a load.
type quotaEnvoy struct {
	*weirtest.Envoy
	user string

	mu      sync.Mutex
	passed  []time.Time
	denied  int
	stopped chan struct{}
	running sync.WaitGroup
}

// startQuotaEnvoy starts an Envoy that prefers the first of some weirs.
func startQuotaEnvoy(t *testing.T, user string, weirs ...*weirtest.Weir) *quotaEnvoy {
	t.Helper()
	type address struct{ Host, Port string }
	var all []address
	for _, w := range weirs {
		host, port, err := net.SplitHostPort(w.GRPC)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, address{host, port})
	}
	e := &quotaEnvoy{user: user, stopped: make(chan struct{})}
	e.Envoy = weirtest.EnvoyOf(t, "quota.yaml.tmpl", map[string]any{"Weirs": all, "Backend": "quota-" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(time.Now().UnixNano())}, 2)
	return e
}

// load sends so many requests a second, in the background, until stop.
func (e *quotaEnvoy) load(t *testing.T, perSecond int) {
	url := "http://" + e.Addrs["ingress"] + "/"
	client := &http.Client{Timeout: process.Hang, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	e.running.Go(func() {
		begin := time.Now()
		for sent := 0; ; {
			select {
			case <-e.stopped:
				return
			case <-time.After(10 * time.Millisecond):
			}
			for due := int(time.Since(begin).Seconds() * float64(perSecond)); sent < due; sent++ {
				r, _ := http.NewRequest(http.MethodGet, url, nil)
				r.Header.Set("x-user", e.user)
				answer, err := client.Do(r)
				if err != nil {
					return // it was killed
				}
				answer.Body.Close()
				e.mu.Lock()
				if answer.StatusCode == http.StatusOK {
					e.passed = append(e.passed, time.Now())
				} else {
					e.denied++
				}
				e.mu.Unlock()
			}
		}
	})
	t.Cleanup(e.stop)
}

// kill kills it under load.
func (e *quotaEnvoy) kill() {
	e.Process.Kill()
	e.running.Wait()
}

func (e *quotaEnvoy) stop() {
	select {
	case <-e.stopped:
	default:
		close(e.stopped)
	}
	e.running.Wait()
}

func (e *quotaEnvoy) counts() (passed, denied int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.passed), e.denied
}

// mostInWindow returns the most that passed in a window since a moment.
func mostInWindow(envoys []*quotaEnvoy, others []time.Time, since time.Time, window time.Duration) (most int) {
	var all []time.Time
	for _, e := range envoys {
		e.mu.Lock()
		all = append(all, e.passed...)
		e.mu.Unlock()
	}
	all = slices.DeleteFunc(append(all, others...), func(at time.Time) bool { return at.Before(since) })
	slices.SortFunc(all, time.Time.Compare)
	begin := 0
	for i := range all {
		for all[i].Sub(all[begin]) >= window {
			begin++
		}
		most = max(most, i-begin+1)
	}
	return most
}

// quotas returns the buckets that a weir tells of.
func quotas(w *weirtest.Weir) (a admin.QuotaAnswer, err error) {
	return a, weirtest.GetJSON(w.Admin+"/api/v1/quota", &a)
}

// rlsLoad asks a weir by RLS.
type rlsLoad struct {
	passed  []time.Time
	refused int
	asked   chan struct{}
	asking  sync.WaitGroup
}

// start asks 20 times a second until stop.
func (l *rlsLoad) start(t *testing.T, w *weirtest.Weir) {
	c := w.Client(t)
	l.asked = make(chan struct{})
	l.asking.Go(func() {
		for {
			select {
			case <-l.asked:
				return
			case <-time.After(50 * time.Millisecond):
			}
			status, err := c.Hit("quota", "ann")
			switch {
			case err != nil:
				t.Error(err)
				return
			case status.Code == rlspb.RateLimitResponse_OK:
				l.passed = append(l.passed, time.Now())
			default:
				l.refused++
			}
		}
	})
}

func (l *rlsLoad) stop() {
	close(l.asked)
	l.asking.Wait()
}

// shares complains unless a weir has so many buckets, all with an assignment.
func shares(w *weirtest.Weir, n int) error {
	all, err := quotas(w)
	if err == nil && (len(all.Buckets) != n || slices.ContainsFunc(all.Buckets, func(one rlqs.Bucket) bool { return one.Assignment == "none" })) {
		err = fmt.Errorf("its buckets are %+v, want %d with an assignment", all.Buckets, n)
	}
	return err
}

const quotaLimit, quotaWindow, quotaInterval = 3000, 30 * time.Second, 5 * time.Second

var quotaRules = weirtest.Rule("quota", fmt.Sprintf("unit: second, unit_multiplier: 30, requests_per_unit: %d", quotaLimit))

// Three Envoys share a limit by demand, behind two weirs on one Redis, beside callers of RLS. One Envoy is killed, then a
// weir, and then Redis hangs.
func TestEnvoysShareALimitByDemand(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	rules := quotaRules + "    on_backend_failure: deny\n"
	var weirs [2]*weirtest.Weir
	for i := range weirs {
		weirs[i] = weirtest.Serve(t, rules, "REDIS_URL="+redis.Addr, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	}
	a, b := weirs[0], weirs[1]
	hungry, idle, killed := startQuotaEnvoy(t, "ann", a, b), startQuotaEnvoy(t, "ann", b, a), startQuotaEnvoy(t, "ann", b, a)
	hungry.load(t, 150)
	idle.load(t, 5)
	killed.load(t, 20)
	a.Eventually(t, "the hungry one has a share", func() error { return shares(a, 1) })
	b.Eventually(t, "the others have a share", func() error { return shares(b, 2) })
	began := time.Now()
	var rls rlsLoad
	rls.start(t, a)
	a.Eventually(t, "the hungry one has all that idle ones leave of 100 a second", func() error {
		all, err := quotas(a)
		if err == nil && (len(all.Buckets) != 1 || all.Buckets[0].Share < 60) {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
	want, lost := killEnvoy(t, b, killed)
	lost += killWeir(t, a, b, idle)
	time.Sleep(2 * quotaInterval)
	rls.stop()
	hungry.stop()
	idle.stop()
	most := mostInWindow([]*quotaEnvoy{hungry, idle, killed}, rls.passed, began, quotaWindow)
	t.Logf("at most %d passed in %v, %d by RLS in all, which refused %d", most, quotaWindow, len(rls.passed), rls.refused)
	if most > 2*quotaLimit { // far more than the shares of one interval: a machine that stands still makes times late
		t.Errorf("%d passed in %v, want at most %d and one interval's shares", most, quotaWindow, quotaLimit)
	}
	want += len(rls.passed) + rls.refused
	for _, e := range []*quotaEnvoy{hungry, idle} {
		passed, denied := e.counts()
		if want += passed + denied; passed != e.Stat(t, "http.ingress.downstream_rq_2xx") || denied != e.Stat(t, "http.ingress.downstream_rq_4xx") {
			t.Errorf("its caller counts %d and %d, and Envoy others", passed, denied)
		}
	}
	time.Sleep(2 * quotaInterval) // the last reports
	a.Eventually(t, "the history has all that Envoys let through and denied", func() error {
		kept, err := a.Lifetimes()
		sum := int(kept["within"] + kept["over"] + kept["degraded"])
		if err == nil && (sum > want || sum < want-lost) {
			err = fmt.Errorf("it has %d hits (%v), want %d, less at most %d of the one whose weir was killed", sum, kept, want, lost)
		}
		return err
	})
	kept, err := a.Lifetimes()
	t.Logf("history %v of %d, at most %d of them lost, %v", kept, want, lost, err)
	freeze(t, redis, a, idle)
}

// killEnvoy kills an Envoy that has just reported. It returns how many hits it answered, and how many it may not have
// reported.
func killEnvoy(t *testing.T, w *weirtest.Weir, e *quotaEnvoy) (answered, lost int) {
	t.Helper()
	reported := 0
	w.Eventually(t, "the one that is to be killed has just reported", func() error {
		all, err := quotas(w)
		if err != nil || len(all.Buckets) != 2 || all.Buckets[0].Demand < 10 || all.Buckets[0].Reported > 1 {
			return fmt.Errorf("%+v, %w", all, err)
		}
		reported = int(all.Buckets[0].Allowed + all.Buckets[0].Denied)
		return nil
	})
	e.kill()
	time.Sleep(20 * time.Second)
	w.Eventually(t, "a killed Envoy's stream is gone", func() error { return shares(w, 1) })
	passed, denied := e.counts()
	return passed + denied, passed + denied - reported
}

// killWeir kills b once it has written a report of an Envoy, which moves to a. It returns how many hits may be lost, as Envoy
// forgets what it reports to a weir that it cannot reach.
func killWeir(t *testing.T, a, b *weirtest.Weir, e *quotaEnvoy) (lost int) {
	t.Helper()
	passed, denied := e.counts()
	b.Eventually(t, "a report comes", func() error {
		all, err := quotas(b)
		if err == nil && (len(all.Buckets) != 1 || all.Buckets[0].Reported > 1 || all.Buckets[0].Allowed+all.Buckets[0].Denied < uint64(passed+denied)) {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
	time.Sleep(2500 * time.Millisecond) // it is written, and the next is to come
	b.Kill()
	passed, denied = e.counts()
	a.Eventually(t, "a killed weir's stream moves", func() error { return shares(a, 2) })
	lost = -passed - denied
	passed, denied = e.counts()
	return lost + passed + denied + 5*5
}

// freeze freezes Redis, and wants the failure policy of the rule to decide.
func freeze(t *testing.T, redis *redistest.Server, w *weirtest.Weir, e *quotaEnvoy) {
	t.Helper()
	redis.Freeze()
	defer redis.Thaw()
	e.stopped = make(chan struct{})
	e.load(t, 50)
	for _, c := range []struct{ policy, assigned string }{{"deny", "deny_all"}, {"allow", "allow_all"}, {"local", "share"}} {
		w.Configure(t, quotaRules+"    on_backend_failure: "+c.policy+"\n")
		w.Eventually(t, "without Redis the policy "+c.policy+" assigns", func() error {
			if err := assigned(w, c.assigned); err != nil {
				return err
			}
			return e.passes(c.policy != "deny")
		})
	}
}

// assigned complains unless all buckets at a weir have an assignment of a kind.
func assigned(w *weirtest.Weir, kind string) error {
	all, err := quotas(w)
	for _, one := range all.Buckets {
		if one.Assignment != kind {
			err = fmt.Errorf("%+v, want %s", one, kind)
		}
	}
	return err
}

// passes complains unless in the next moment all requests pass, or none does.
func (e *quotaEnvoy) passes(all bool) error {
	passedBefore, deniedBefore := e.counts()
	time.Sleep(200 * time.Millisecond)
	passed, denied := e.counts()
	passed, denied = passed-passedBefore, denied-deniedBefore
	if all && (passed == 0 || denied > 0) || !all && (passed > 0 || denied == 0) {
		return fmt.Errorf("%d requests pass and %d are denied", passed, denied)
	}
	return nil
}

// An Envoy sees a rule that changes, one that goes and comes back, and a weir that drains. Both Envoys then share a limit at
// the other weir until one is killed.
func TestEnvoysFollowReloadsAndDrains(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	var weirs [2]*weirtest.Weir
	for i := range weirs {
		weirs[i] = weirtest.Serve(t, quotaRules, "REDIS_URL="+redis.Addr, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	}
	a, b := weirs[0], weirs[1]
	moving := startQuotaEnvoy(t, "ann", a, b)
	moving.load(t, 40)
	for _, step := range []struct {
		change, rules, assigned string
		pass                    bool
	}{
		{"a limit", quotaRules, "share", true},
		{"a limit of nothing", weirtest.Rule("quota", "unit: hour, requests_per_unit: 0"), "deny_all", false},
		{"no rule", weirtest.Rule("other", "unit: hour, requests_per_unit: 1"), "allow_all", true},
		{"a shadow rule", weirtest.Rule("quota", "unit: hour, requests_per_unit: 0") + "    shadow_mode: true\n", "allow_all", true},
		{"a limit again", quotaRules, "share", true},
	} {
		for _, w := range weirs {
			w.Configure(t, step.rules)
		}
		a.Eventually(t, "the Envoy follows a reload to "+step.change, func() error {
			if err := assigned(a, step.assigned); err != nil {
				return err
			}
			return moving.passes(step.pass)
		})
	}
	if testing.Short() { // what follows waits for half a minute, and server/rlqs proves it on a clock of its own
		return
	}
	a.Terminate(t)
	b.Eventually(t, "the stream of a weir that drains moves", func() error { return shares(b, 1) })
	if code := a.ExitCode(t); code != 0 {
		t.Errorf("the drain ends with %d", code)
	}
	moving.stop()
	passed, denied := moving.counts()
	b.Eventually(t, "a drain loses no hit, and counts none twice", func() error {
		kept, err := b.Lifetimes()
		if sum := int(kept["within"] + kept["over"] + kept["shadow"] + kept["degraded"]); err == nil && sum != passed+denied {
			err = fmt.Errorf("the history has %d hits (%v), want %d that passed and %d that were denied", sum, kept, passed, denied)
		}
		return err
	})
	wantShareBack(t, b)
}

// wantShareBack has two Envoys share a limit of 4 a second, kills one, and wants its share to be kept while its
// assignment lasts, and no longer.
func wantShareBack(t *testing.T, w *weirtest.Weir) {
	t.Helper()
	w.Configure(t, weirtest.Rule("quota", "unit: second, requests_per_unit: 4"))
	killed, left := startQuotaEnvoy(t, "bob", w), startQuotaEnvoy(t, "bob", w)
	killed.load(t, 20)
	left.load(t, 20)
	bobs := func() (all []rlqs.Bucket, err error) {
		a, err := quotas(w)
		return slices.DeleteFunc(a.Buckets, func(one rlqs.Bucket) bool { return one.Demand < 5 }), err
	}
	var before []rlqs.Bucket
	w.Eventually(t, "two Envoys have a half each", func() (err error) {
		if before, err = bobs(); err == nil && (len(before) != 2 || max(before[0].Share, before[1].Share) > 2.4) {
			err = fmt.Errorf("%+v", before)
		}
		return err
	})
	at, ends := time.Now(), min(before[0].Ends, before[1].Ends)
	killed.kill()
	w.Eventually(t, "a killed Envoy's share is back", func() error {
		now, err := bobs()
		if err == nil && (len(now) != 1 || now[0].Share < 3.8) {
			err = fmt.Errorf("%+v", now)
		}
		return err
	})
	if after := time.Since(at).Seconds(); after < ends-1 {
		t.Errorf("it is back %.1f s after the kill, while its assignment lasts for %.1f s", after, ends)
	}
}
