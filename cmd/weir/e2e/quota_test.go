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

// Three Envoys share a limit by demand, behind two weirs on one Redis, beside callers of RLS. One Envoy is killed, then a
// weir, and then Redis hangs.
func TestEnvoysShareALimitByDemand(t *testing.T) {
	t.Parallel()
	const limit, window, interval = 3000, 30 * time.Second, 5 * time.Second
	redis := redistest.Single(t)
	rules := weirtest.Rule("quota", fmt.Sprintf("unit: second, unit_multiplier: 30, requests_per_unit: %d", limit)) +
		"    on_backend_failure: deny\n"
	var weirs [2]*weirtest.Weir
	for i := range weirs {
		weirs[i] = weirtest.Serve(t, rules, "REDIS_URL="+redis.Addr, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	}
	a, b := weirs[0], weirs[1]
	hungry, idle, killed := startQuotaEnvoy(t, "ann", a, b), startQuotaEnvoy(t, "ann", b, a), startQuotaEnvoy(t, "ann", b, a)
	envoys := []*quotaEnvoy{hungry, idle, killed}
	hungry.load(t, 150)
	idle.load(t, 5)
	killed.load(t, 20)
	shared := func(w *weirtest.Weir, n int) error {
		all, err := quotas(w)
		if err == nil && (len(all.Buckets) != n || slices.ContainsFunc(all.Buckets, func(one admin.QuotaBucket) bool { return one.Assignment == "none" })) {
			err = fmt.Errorf("its buckets are %+v, want %d with an assignment", all.Buckets, n)
		}
		return err
	}
	a.Eventually(t, "the hungry one has a share", func() error { return shared(a, 1) })
	b.Eventually(t, "the others have a share", func() error { return shared(b, 2) })
	began := time.Now()
	c, asked, rls := a.Client(t), make(chan struct{}), []time.Time(nil)
	var asking sync.WaitGroup
	refused := 0
	asking.Go(func() {
		for {
			select {
			case <-asked:
				return
			case <-time.After(50 * time.Millisecond):
			}
			status, err := c.Hit("quota", "ann")
			if err != nil {
				t.Error(err)
				return
			}
			if status.Code == rlspb.RateLimitResponse_OK {
				rls = append(rls, time.Now())
			} else {
				refused++
			}
		}
	})
	time.Sleep(2*interval + time.Second)
	all, err := quotas(a)
	if _, denied := idle.counts(); err != nil || denied > 0 || all.Buckets[0].Share < 60 {
		t.Errorf("after two reports an idle one is denied %d, and the hungry one has %+v, %v; want all that idle ones leave of 3000", denied, all, err)
	}
	reported := 0 // by the Envoy that is killed: what comes later is lost
	b.Eventually(t, "the one that is to be killed has just reported", func() error {
		all, err := quotas(b)
		if err != nil || len(all.Buckets) != 2 || all.Buckets[0].Demand < 10 || all.Buckets[0].Reported > 1 {
			return fmt.Errorf("%+v, %w", all, err)
		}
		reported = int(all.Buckets[0].Allowed + all.Buckets[0].Denied)
		return nil
	})
	killed.kill()
	time.Sleep(20 * time.Second)
	b.Eventually(t, "a killed Envoy's share is back after its TTL, and no stream is left", func() error { return shared(b, 1) })
	passed, denied := idle.counts()
	b.Eventually(t, "a report comes", func() error {
		all, err := quotas(b)
		if err == nil && (len(all.Buckets) != 1 || all.Buckets[0].Reported > 1 || all.Buckets[0].Allowed+all.Buckets[0].Denied < uint64(passed+denied)) {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
	time.Sleep(2500 * time.Millisecond) // it is written, and the next is to come
	b.Kill()
	passed, denied = idle.counts()
	a.Eventually(t, "a killed weir's stream moves", func() error { return shared(a, 2) })
	lost := -passed - denied // at most: Envoy forgets what it reports to a weir that it cannot reach
	passed, denied = idle.counts()
	lost += passed + denied + 5*5
	time.Sleep(2 * interval)
	close(asked)
	asking.Wait()
	hungry.stop()
	idle.stop()
	most := mostInWindow(envoys, rls, began, window)
	t.Logf("at most %d passed in %v, %d by RLS, which refused %d", most, window, len(rls), refused)
	if most > 2*limit { // N, and the shares of one report interval, which are at most N
		t.Errorf("%d passed in %v, want at most %d and one interval's shares", most, window, limit)
	}
	if most > limit+limit/4 {
		t.Errorf("%d passed in %v: far more than %d, though no share is that large", most, window, limit)
	}
	want := len(rls) + refused + reported
	for _, e := range envoys[:2] {
		if passed, denied := e.counts(); passed != e.Stat(t, "http.ingress.downstream_rq_2xx") || denied != e.Stat(t, "http.ingress.downstream_rq_4xx") {
			t.Errorf("its caller counts %d and %d, and Envoy others", passed, denied)
		} else {
			want += passed + denied
		}
	}
	time.Sleep(2 * interval) // the last reports
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
	redis.Freeze()
	defer redis.Thaw()
	idle.stopped = make(chan struct{})
	idle.load(t, 50)
	a.Eventually(t, "without Redis the policy denies", func() error {
		all, err := quotas(a)
		for _, one := range all.Buckets {
			if one.Assignment != "deny_all" {
				err = fmt.Errorf("%+v", one)
			}
		}
		before, _ := idle.counts()
		time.Sleep(100 * time.Millisecond)
		if after, _ := idle.counts(); err == nil && after > before {
			err = fmt.Errorf("%d passed", after-before)
		}
		return err
	})
}
