package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// envoyPlan is of the keys that are asked for through Envoy. All hits count, and nobody reaches the limit.
const envoyPlan = "envoy"

// envoy is a running Envoy that asks the replicas in turn, with failure_mode_deny.
type envoy struct {
	budget     time.Duration // that weir has to answer in
	admin, url string
	http       *http.Client

	leave   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	answers map[int]int // by status; 0 for none
}

// startEnvoy runs Envoy with testdata/envoy.yaml.tmpl, where weir has a budget to answer in, and waits until it takes
// requests.
func startEnvoy(t *testing.T, replicas []*replica, budget time.Duration) *envoy {
	t.Helper()
	bootstrap, err := template.ParseFiles(filepath.Join("testdata", "envoy.yaml.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var ports []int
	for _, r := range replicas {
		ports = append(ports, r.grpcPort)
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	err = bootstrap.Execute(file, map[string]any{
		"Timeout": fmt.Sprintf("%.3fs", budget.Seconds()), "Ports": ports,
		"UpstreamPort": upstream.Listener.Addr().(*net.TCPAddr).Port,
	})
	if file.Close() != nil || err != nil {
		t.Fatalf("writing Envoy's configuration: %v", err)
	}
	address := filepath.Join(dir, "admin-address")
	p := process.Start(t, "envoy", nil, envoyBinary, "-c", file.Name(), "--admin-address-path", address,
		"--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
	e := &envoy{budget: budget, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: process.Hang},
		leave: make(chan struct{}), answers: make(map[int]int)}
	p.AwaitReady(t, func() error {
		admin, err := os.ReadFile(address)
		if err != nil {
			return err
		}
		e.admin = "http://" + string(admin)
		return e.findIngress()
	})
	t.Cleanup(e.http.CloseIdleConnections)
	return e
}

// findIngress asks a ready Envoy where its only listener is.
func (e *envoy) findIngress() error {
	if err := wantStatus(e.admin + "/ready"); err != nil {
		return err
	}
	var listeners struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := getJSON(e.admin+"/listeners?format=json", &listeners); err != nil || len(listeners.Statuses) != 1 {
		return fmt.Errorf("Envoy has %d listeners, want 1 (%v)", len(listeners.Statuses), err)
	}
	e.url = fmt.Sprint("http://127.0.0.1:", listeners.Statuses[0].Address.Socket.Port)
	return nil
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
			e.running.Go(func() { e.send(fmt.Sprint(n % 10)) })
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

func (e *envoy) send(user string) {
	status := 0
	ask, err := http.NewRequest(http.MethodGet, e.url, nil)
	if err == nil {
		ask.Header.Set("X-Plan", envoyPlan)
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
	e.answers[status]++
}

// asked returns how many requests were sent through Envoy.
func (e *envoy) asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, answers := range e.answers {
		n += answers
	}
	return n
}

// stat reads a counter of Envoy's own, which it keeps by the cluster that requests go to.
func (e *envoy) stat(name string) (int, error) {
	var stats struct {
		Stats []struct {
			Name  string
			Value int
		}
	}
	if err := getJSON(e.admin+"/stats?format=json&filter=ratelimit", &stats); err != nil {
		return 0, err
	}
	for _, s := range stats.Stats {
		if s.Name == name {
			return s.Value, nil
		}
	}
	return 0, nil // Envoy has no counter that was never raised
}

// patientBudget is what Envoy gives weir where its errors are asserted: at 20 ms some would be the machine's.
const patientBudget = 200 * time.Millisecond

// judgeEnvoys wants that Envoy has seen no error of weir's; with policy error, that it has seen each.
func (s *scene) judgeEnvoys([]call) string {
	var said []string
	for _, e := range s.envoys {
		said = append(said, s.judgeEnvoy(e))
	}
	return strings.Join(said, " · ")
}

func (s *scene) judgeEnvoy(e *envoy) string {
	errors, err := e.stat("cluster.upstream.ratelimit.error")
	s.must(err)
	passed, err := e.stat("cluster.upstream.ratelimit.ok")
	s.must(err)
	denied, err := e.stat("cluster.upstream.ratelimit.over_limit")
	s.must(err)
	asked, refused := e.asked(), e.answers[http.StatusInternalServerError]
	if passed == 0 || passed+errors+denied != asked || e.answers[http.StatusOK] != passed || refused != errors {
		s.errorf("Envoy counts %d ok, %d over and %d errors of %d requests, answered %v: want 200 for each that is ok, 500 for each error",
			passed, denied, errors, asked, e.answers)
	}
	stood, longest := s.stalls.sum()
	switch {
	case s.row.bounds.errors && errors == 0:
		s.errorf("Envoy counts no error of %d requests, want each that failed: policy error is to reach its failure_mode_deny", asked)
	case s.row.bounds.errors, errors == 0, e.budget < patientBudget:
	case s.stalls.spoil(e.budget, s.record.now()):
		s.note("Envoy's errors say nothing: the machine stood for %s, %s at once", brief(stood), brief(longest))
	default:
		s.errorf("Envoy counts %d errors of %d requests, want none: with policy allow weir answers within %v whatever happens", errors,
			asked, e.budget)
	}
	return fmt.Sprintf("Envoy at %v: %d errors of %d", e.budget, errors, asked)
}

// getJSON decodes what a URL answers.
func getJSON(url string, into any) error {
	answer, err := curious.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
