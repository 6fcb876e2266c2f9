package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// replica is a weir serve. It keeps its ports, its configuration and its data when it is started again.
type replica struct {
	*process.Process
	grpcPort int
	admin    string // URL of its admin port
	config   string // its --config folder
	env      []string
	conn     *grpc.ClientConn
	out      atomic.Bool  // clients leave it out
	underWay atomic.Int64 // calls that have not ended
	answered atomic.Int64 // calls that have
}

// startReplica serves a file of rules and waits until it answers. Settings are NAME=value; a later one wins.
func startReplica(t *testing.T, binary, rules string, settings ...string) *replica {
	t.Helper()
	process.Weir(t) // so that go test sees what its result hangs on
	r := &replica{grpcPort: process.Port(t), config: t.TempDir()}
	debugPort := process.Port(t)
	r.admin = fmt.Sprintf("http://127.0.0.1:%d", debugPort)
	r.env = append([]string{
		"GRPC_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", r.grpcPort),
		"HOST=127.0.0.1", fmt.Sprint("PORT=", process.Port(t)),
		"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", debugPort),
		"DATA_DIR=" + t.TempDir(), "HISTORY_FLUSH_INTERVAL=1s",
		"DENIAL_LOG_INTERVAL=0", // what is logged of denials has a bound of its own
		"ON_BACKEND_FAILURE=" + defaultPolicy,
	}, settings...)
	if err := os.WriteFile(filepath.Join(r.config, "shop.yaml"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	r.conn = dial(t, fmt.Sprint("127.0.0.1:", r.grpcPort))
	r.start(t, binary)
	return r
}

// start runs weir serve, again after it has ended.
func (r *replica) start(t *testing.T, binary string) {
	t.Helper()
	r.Process = process.Start(t, "weir", r.env, binary, "serve", "--config", r.config)
	r.AwaitReady(t, func() error { return wantStatus(r.admin + "/readyz") })
}

func (r *replica) rls() rlspb.RateLimitServiceClient { return rlspb.NewRateLimitServiceClient(r.conn) }

// curious gives up before the tests' own time is over, so that a process which hangs is named.
var curious = &http.Client{Timeout: process.Hang}

// get reads what a URL answers with 200.
func get(url string) ([]byte, error) {
	answer, err := curious.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s, want 200", url, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// wantStatus complains unless a URL answers 200.
func wantStatus(url string) error {
	_, err := get(url)
	return err
}

// getJSON decodes what a URL answers.
func getJSON(url string, into any) error {
	text, err := get(url)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// metrics is a scrape: values by name with labels, as written.
type metrics map[string]float64

// scrape reads metrics as Prometheus does.
func scrape(url string) (metrics, error) {
	text, err := get(url)
	if err != nil {
		return nil, err
	}
	m := make(metrics)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if m[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("reading the metric %q: %w", line, err)
		}
	}
	return m, nil
}

func (r *replica) scrape() (metrics, error) { return scrape(r.admin + "/metrics") }

// sum adds all series of a metric whose labels hold a text.
func (m metrics) sum(name, label string) (sum float64) {
	for series, value := range m {
		if of, labels, _ := strings.Cut(series, "{"); of == name && strings.Contains(labels, label) {
			sum += value
		}
	}
	return sum
}

// mustScrape is scrape for a weir that is well.
func (r *replica) mustScrape(t *testing.T) metrics {
	t.Helper()
	m, err := r.scrape()
	if err != nil {
		t.Fatalf("reading the metrics of weir: %v", err)
	}
	return m
}

// hits returns what the store has counted for a key, as weir counters shows it.
func (r *replica) hits(plan, user string) (uint64, error) {
	query := url.Values{"domain": {"shop"}, "descriptor": {fmt.Sprintf("plan=%s,user=%s", plan, user)}}
	var shown struct{ Limits []struct{ Hits uint64 } }
	if err := getJSON(r.admin+"/api/v1/counters?"+query.Encode(), &shown); err != nil {
		return 0, err
	}
	if len(shown.Limits) != 1 {
		return 0, fmt.Errorf("the counters of %v have %d limits, want one", query, len(shown.Limits))
	}
	return shown.Limits[0].Hits, nil
}

// lifetimes returns how many hits the history has in all.
func (r *replica) lifetimes() (sum uint64, err error) {
	var shown struct {
		Series []struct {
			Outcome  string
			Lifetime uint64
		}
	}
	if err := getJSON(r.admin+"/api/v1/history?domain=shop&points=1", &shown); err != nil {
		return 0, err
	}
	for _, series := range shown.Series {
		if series.Outcome == "within" || series.Outcome == "over" || series.Outcome == "degraded" {
			sum += series.Lifetime
		}
	}
	return sum, nil
}
