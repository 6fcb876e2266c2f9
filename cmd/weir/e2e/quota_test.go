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
	if err == nil && (len(all.Buckets) != n || slices.ContainsFunc(all.Buckets, func(one admin.QuotaBucket) bool { return one.Assignment == "none" })) {
		err = fmt.Errorf("its buckets are %+v, want %d with an assignment", all.Buckets, n)
	}
	return err
}

const quotaLimit, quotaWindow, quotaInterval = 3000, 30 * time.Second, 5 * time.Second

// Three Envoys share a limit by demand, behind two weirs on one Redis, beside callers of RLS. One Envoy is killed, then a
// weir, and then Redis hangs.
func TestEnvoysShareALimitByDemand(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	rules := weirtest.Rule("quota", fmt.Sprintf("unit: second, unit_multiplier: 30, requests_per_unit: %d", quotaLimit)) +
		"    on_backend_failure: deny\n"
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

// freeze freezes Redis, and wants the policy to deny all.
func freeze(t *testing.T, redis *redistest.Server, w *weirtest.Weir, e *quotaEnvoy) {
	t.Helper()
	redis.Freeze()
	defer redis.Thaw()
	e.stopped = make(chan struct{})
	e.load(t, 50)
	w.Eventually(t, "without Redis the policy denies", func() error {
		all, err := quotas(w)
		for _, one := range all.Buckets {
			if one.Assignment != "deny_all" {
				err = fmt.Errorf("%+v", one)
			}
		}
		before, _ := e.counts()
		time.Sleep(100 * time.Millisecond)
		if after, _ := e.counts(); err == nil && after > before {
			err = fmt.Errorf("%d passed", after-before)
		}
		return err
	})
}
