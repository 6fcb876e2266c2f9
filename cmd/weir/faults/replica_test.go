package faults_test

import (
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// replica is a weir serve. It keeps its ports, its configuration and its data when it is started again.
type replica struct {
	*weirtest.Weir
	client   *weirtest.Client
	out      atomic.Bool  // clients leave it out
	underWay atomic.Int64 // calls that have not ended
	answered atomic.Int64 // calls that have
}

// startReplica serves rules of domain shop, and waits until it answers. Settings are NAME=value; a later one wins.
func startReplica(t testing.TB, rules string, settings ...string) *replica {
	t.Helper()
	w := weirtest.Serve(t, rules, append([]string{
		"HISTORY_FLUSH_INTERVAL=1s",
		"DENIAL_LOG_INTERVAL=0", // what is logged of denials has a bound of its own
		"ON_BACKEND_FAILURE=" + defaultPolicy,
	}, settings...)...)
	return &replica{Weir: w, client: w.Client(t)}
}

// mustScrape is Scrape for a weir that is well.
func (r *replica) mustScrape(t *testing.T) weirtest.Metrics {
	t.Helper()
	m, err := r.Scrape()
	if err != nil {
		t.Fatalf("reading the metrics of weir: %v", err)
	}
	return m
}
