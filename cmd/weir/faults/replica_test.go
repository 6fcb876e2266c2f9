package faults_test

import (
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
func startReplica(t testing.TB, binary, rules string, settings ...string) *replica {
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
func (r *replica) serve(t testing.TB, binary string) {
	t.Helper()
	if binary == "" {
		binary = process.Weir(t)
	}
	r.Start(t, binary, "serve", "--config", r.Config)
	r.AwaitReady(t)
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

// lifetimes returns how many hits the history has in all.
func (r *replica) lifetimes() (sum uint64, err error) {
	var shown struct {
		Series []struct {
			Outcome  string
			Lifetime uint64
		}
	}
	if err := weirtest.GetJSON(r.Admin+"/api/v1/history?domain=shop&points=1", &shown); err != nil {
		return 0, err
	}
	for _, series := range shown.Series {
		if series.Outcome == "within" || series.Outcome == "over" || series.Outcome == "degraded" {
			sum += series.Lifetime
		}
	}
	return sum, nil
}
