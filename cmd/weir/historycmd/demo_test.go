package historycmd

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

func TestDemoFillsAnEmptyHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("DATA_DIR", dir)
	const days, until = 4, "2026-11-21T12:00:00Z"
	got, err := runHistory(t, "demo", "--days", "4", "--until", until)
	if err != nil || !strings.Contains(got, "Made up 3d 12h until") || !strings.Contains(got, "weir history top --from -7d") {
		t.Fatalf("weir history demo prints %q, %v", got, err)
	}
	sums, hits := make(map[history.ID]uint64), uint64(0)
	at, _ := time.Parse(time.RFC3339, until)
	since, _ := demo.Since(at, days)
	_ = demo.Buckets(since, at, history.DefaultRetention(), func(id history.ID, p history.Point) error {
		sums[id] += p.Sum
		if !id.Outcome.IsPart() {
			hits += p.Sum
		}
		return nil
	})
	if want := ": " + terminal.Thousands(hits) + " hits.\n"; !strings.Contains(got, want) {
		t.Errorf("weir history demo prints %q, want %q: near hits are part of those within", got, want)
	}
	store := openHistory(t, dir)
	port := historyPort(t, store)
	for by, listed := range map[string]bool{"refused": false, "shadow": true} {
		top, err := runHistory(t, "top", "--admin", port, "--from", "2026-11-17", "--to", "2026-11-22", "--by", by)
		if err != nil || strings.Contains(top, "remote_address") != listed || strings.Contains(top, "tenant") == listed {
			t.Errorf("by %s the top is %q (%v); want the rule in shadow mode only by shadow: it refused nobody", by, top, err)
		}
	}
	found := historytest.All(t, store)
	for id, sum := range sums {
		if s := found[id]; s.Lifetime != sum || !s.Exact() {
			t.Errorf("%+v holds %d hits (%v), want %d", id, s.Lifetime, s.Err, sum)
		}
	}
	for _, name := range []string{"shop.yaml", "mail.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, "demo-config", name)); err != nil {
			t.Errorf("the demo does not write the rules that it is of: %v", err)
		}
	}
	if _, err := runHistory(t, "demo"); err == nil || !strings.Contains(err.Error(), "in use by another weir: stop it first") {
		t.Errorf("a history that a weir serve has is filled: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = runHistory(t, "demo"); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a history that holds something is filled: %v", err)
	}

	begin := time.Now()
	t.Setenv("GRPC_UDS", filepath.Join(dir, "nobody"))
	if _, err = runHistory(t, "demo", "--serve"); err == nil || err.Error() != "served by "+filepath.Join(dir, "demo-config") {
		t.Errorf("a demo that is there is served again: %v", err)
	}
	last := int64(0)
	for id, s := range historytest.All(t, openHistory(t, dir)) {
		if !s.Exact() || s.Lifetime < sums[id] {
			t.Errorf("%+v holds %d hits (%v), and had %d", id, s.Lifetime, s.Err, sums[id])
		}
		for _, p := range s.Points {
			last = max(last, p.End())
		}
	}
	if want := begin.Unix() / 60 * 60; last < want {
		t.Errorf("what is made up of a demo that is served again ends at %d, want %d, the minute of now", last, want)
	}
}

// What the limits of the demo decide of its requests is what was made up of the hours before: who looks at the page
// sees no seam. The numbers are of a Thursday's noon, when the shop is busy.
func TestServedDemoContinuesTheHistory(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	now := noon.Add(-time.Hour)
	var clock atomic.Int64 // the store's; it sweeps by it
	recorder := hits.New(100)
	clock.Store(now.Unix())
	limiter := limit.New(fixture.Memory(t, func() time.Time { return time.Unix(clock.Load(), 0) }), limit.Options{Algorithm: descriptors.SlidingWindow, NearRatio: 0.8}, recorder)
	var files []string
	for _, name := range []string{"config/shop.yaml", "config/mail.yaml"} {
		text, err := demo.Config.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	limiter.Apply(fixture.Config(t, files...))
	for ; now.Before(noon); now = now.Add(time.Second) {
		clock.Store(now.Unix())
		demo.Requests(now, func(domain string, d descriptors.Descriptor) {
			err := limiter.Decide(t.Context(), &limit.Call{Request: limit.Request{Domain: domain, Descriptors: []limit.Descriptor{{Entries: d}}}})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	made, served := make(map[history.ID]uint64), make(map[history.ID]uint64)
	_ = demo.Buckets(noon.Add(-time.Hour), noon, history.DefaultRetention(), func(id history.ID, p history.Point) error {
		made[id] += p.Sum
		return nil
	})
	recorder.Drain(now, func(id history.ID, n uint64) { served[id] += n })
	for id := range served {
		made[id] += 0
	}
	for id, want := range made {
		if got := served[id]; got > want+want/3+30 || want > got+got/3+30 {
			t.Errorf("%s hits of %s %s %s: %d in an hour, and %d were made up", id.Outcome, id.Domain, id.Path, id.Value, got, want)
		}
	}
}
