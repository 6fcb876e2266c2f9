package faults_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// replica is a weir serve. It keeps its ports, its configuration and its data when it is started again.
type replica struct {
	*weirtest.Weir
	rls      rlspb.RateLimitServiceClient
	out      atomic.Bool  // clients leave it out
	underWay atomic.Int64 // calls that have not ended
	answered atomic.Int64 // calls that have
}

// startReplica serves rules of domain shop, by a binary ("" for the weir under test), and waits until it answers.
// Settings are NAME=value; a later one wins.
func startReplica(t *testing.T, binary, rules string, settings ...string) *replica {
	t.Helper()
	r := &replica{Weir: weirtest.New(t, append([]string{
		"DATA_DIR=" + t.TempDir(), "HISTORY_FLUSH_INTERVAL=1s",
		"DENIAL_LOG_INTERVAL=0", // what is logged of denials has a bound of its own
		"ON_BACKEND_FAILURE=" + defaultPolicy,
	}, settings...)...)}
	r.rls = rlspb.NewRateLimitServiceClient(r.Client(t))
	r.Configure(t, rules)
	r.serve(t, binary)
	return r
}

// serve runs weir serve, again after it has ended.
func (r *replica) serve(t *testing.T, binary string) {
	t.Helper()
	if binary == "" {
		binary = process.Weir(t)
	}
	r.Start(t, binary, "serve", "--config", r.Config)
	r.AwaitReady(t)
}

// getJSON decodes what a path of the admin port answers.
func (r *replica) getJSON(path string, into any) error {
	text, err := weirtest.Get(r.Admin + path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

func (r *replica) scrape() (weirtest.Metrics, error) { return weirtest.Scrape(r.Admin + "/metrics") }

// mustScrape is scrape for a weir that is well.
func (r *replica) mustScrape(t *testing.T) weirtest.Metrics {
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
	if err := r.getJSON("/api/v1/counters?"+query.Encode(), &shown); err != nil {
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
	if err := r.getJSON("/api/v1/history?domain=shop&points=1", &shown); err != nil {
		return 0, err
	}
	for _, series := range shown.Series {
		if series.Outcome == "within" || series.Outcome == "over" || series.Outcome == "degraded" {
			sum += series.Lifetime
		}
	}
	return sum, nil
}
