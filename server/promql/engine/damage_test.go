package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
)

// inFile returns what a file in a directory holds.
func inFile(t testing.TB, dir string) *past {
	t.Helper()
	p := newPast(t, history.DefaultKeep())
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep(), Now: p.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p.store = store
	return p
}

// A damaged series is named, and the others are answered as if it were not there.
func TestADamagedSeriesIsAWarningAndTheOthersAreAnswered(t *testing.T) {
	for name, spoil := range map[string]func(t testing.TB, path string) string{
		"a chunk": historytest.SpoilChunk, "a name": historytest.SpoilSeries} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := inFile(t, dir)
			for n := range 3 {
				p.count(history.Increment{ID: history.ID{Domain: "shop", Path: fmt.Sprint(n)}, Minute: p.clock.Load()/minute - 5, Hits: 7})
			}
			if err := p.store.(*filehistory.Store).Close(); err != nil {
				t.Fatal(err)
			}
			key := spoil(t, dir+"/"+filehistory.Name)
			p.store = inFile(t, dir).store
			e := p.engine()
			exact(t, "the sum of the sound ones", one(t, e, "sum(weir_hits_total)", p.clock.Load()), 14)
			warnings, _ := instant(t, e, "weir_hits_total", p.clock.Load()).Warnings.AsStrings("", 0, 0)
			if len(warnings) != 1 || !strings.Contains(warnings[0], key) {
				t.Errorf("the warnings are %q, want one with the key %s", warnings, key)
			}
		})
	}
}

// Commands and the page show user/path=/pay; labels have user/path=%2Fpay. Who takes one for the other is told.
func TestAPathSpeltAsPeopleAreShownItIsToldOf(t *testing.T) {
	p := newPast(t, history.DefaultKeep())
	now := p.clock.Load()
	p.count(history.Increment{ID: busy, Minute: now/minute - 5, Hits: 6})
	e := p.engine()
	for text, want := range map[string]string{`weir_hits_total{path="user/path=/pay"}`: `it is spelt "user/path=%2Fpay"`,
		`weir_hits_total{path="user/path=%2Fpay"}`: "", `weir_hits_total{path="user/path=/buy"}`: ""} {
		_, infos := instant(t, e, text, now).Warnings.AsStrings("", 0, 0)
		if said := strings.Join(infos, "; "); !strings.Contains(said, want) || (want == "") != (said == "") {
			t.Errorf("%s says %q, want %q", text, said, want)
		}
	}
}
