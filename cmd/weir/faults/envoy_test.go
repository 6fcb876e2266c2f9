package faults_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// envoy is a running Envoy that asks the replicas in turn, with failure_mode_deny.
type envoy struct {
	budget     time.Duration // that weir has to answer in
	admin, url string
	http       *http.Client

	leave   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	answers map[string]map[int]int // by policy and status; 0 for none
}

// patientBudget is what Envoy gives weir where its errors are asserted: at 20 ms some would be the machine's.
const patientBudget = time.Second

// startEnvoy runs Envoy with testdata/envoy.yaml.tmpl, where weir has a budget to answer in, and waits until it takes
// requests.
func startEnvoy(t *testing.T, replicas []*replica, budget time.Duration) *envoy {
	t.Helper()
	bootstrap, err := template.ParseFiles(filepath.Join("testdata", "envoy.yaml.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var ports []int
	for _, r := range replicas {
		ports = append(ports, r.grpcPort)
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	admin, ingress := process.Port(t), process.Port(t)
	err = bootstrap.Execute(file, map[string]any{
		"Timeout": fmt.Sprintf("%.3fs", budget.Seconds()), "Ports": ports, "Admin": admin, "Ingress": ingress,
		"UpstreamPort": upstream.Listener.Addr().(*net.TCPAddr).Port,
	})
	if file.Close() != nil || err != nil {
		t.Fatalf("writing Envoy's configuration: %v", err)
	}
	p := process.Start(t, "envoy", nil, envoyBinary, "-c", file.Name(),
		"--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
	e := &envoy{
		budget: budget, admin: fmt.Sprint("http://127.0.0.1:", admin), url: fmt.Sprint("http://127.0.0.1:", ingress),
		http:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: process.Hang},
		leave: make(chan struct{}), answers: make(map[string]map[int]int),
	}
	for _, policy := range policies {
		e.answers[policy] = make(map[int]int)
	}
	p.AwaitReady(t, func() error { return wantStatus(e.admin + "/ready") })
	t.Cleanup(e.http.CloseIdleConnections)
	return e
}

// startLoad sends so many requests a second, whether they are answered or not.
func (e *envoy) startLoad(t *testing.T, rate int) {
	e.running.Go(func() {
		began := time.Now()
		for n := 0; ; n++ {
			select {
			case <-e.leave:
				return
			case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate)))):
			}
			e.running.Go(func() { e.send(policyOf(n), fmt.Sprint(n%10)) })
		}
	})
	t.Cleanup(e.stop)
}

func (e *envoy) stop() {
	select {
	case <-e.leave:
	default:
		close(e.leave)
	}
	e.running.Wait()
}

// send asks for a key of a policy, whose hits all count, and nobody reaches its limit.
func (e *envoy) send(policy, user string) {
	status := 0
	ask, err := http.NewRequest(http.MethodGet, e.url, nil)
	if err == nil {
		ask.Header.Set("X-Plan", envoyPlan(policy))
		ask.Header.Set("X-User", user)
		var answer *http.Response
		if answer, err = e.http.Do(ask); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
			answer.Body.Close()
			status = answer.StatusCode
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[policy][status]++
}

// asked returns how many requests were sent through Envoy, and how many of them passed.
func (e *envoy) asked() (n, passed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, answers := range e.answers {
		for _, count := range answers {
			n += count
		}
		passed += answers[http.StatusOK]
	}
	return n, passed
}

// stats reads Envoy's own counters.
func (e *envoy) stats(t *testing.T) metrics {
	t.Helper()
	m, err := scrape(e.admin + "/stats/prometheus?filter=ratelimit")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// judgeEnvoys wants that Envoy has seen no error of weir's, but each of policy error, which its failure_mode_deny then
// decides about.
func (s *scene) judgeEnvoys([]call) string {
	for _, e := range s.envoys {
		s.judgeEnvoy(e)
	}
	return ""
}

func (s *scene) judgeEnvoy(e *envoy) {
	stats := e.stats(s.T)
	stat := func(name string) int { return int(stats.sum("envoy_cluster_ratelimit_"+name, `"upstream"`)) }
	errors, passed, denied := stat("error"), stat("ok"), stat("over_limit")
	asked, answered := e.asked()
	refused, allowed := 0, e.answers["error"][http.StatusInternalServerError]
	for _, answers := range e.answers {
		refused += answers[http.StatusInternalServerError]
	}
	if passed == 0 || passed+errors+denied != asked || answered != passed || refused != errors {
		s.errorf("Envoy counts %d ok, %d over and %d errors of %d requests, answered %v: want 200 for each that is ok, 500 for each error",
			passed, denied, errors, asked, e.answers)
	}
	if s.row.bounds.gone && allowed == 0 {
		s.errorf("Envoy counts no error of policy error: it is to reach its failure_mode_deny")
	}
	stood, longest := s.stalls.sum()
	switch {
	case refused == allowed, e.budget < patientBudget:
	case s.stalls.spoil(e.budget, s.record.now()):
		s.note("Envoy's errors say nothing: the machine stood for %s, %s at once", brief(stood), brief(longest))
	default:
		s.errorf("Envoy counts %d errors of %d requests, want %d, those of policy error: weir answers all others within %v",
			errors, asked, allowed, e.budget)
	}
	s.note("Envoy at %v: %d errors of %d", e.budget, errors, asked)
}
