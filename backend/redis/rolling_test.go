package redis

import (
	"context"
	"crypto/sha1"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// version is the script of another version of weir, which differs from this one's by a comment.
func version(name string) *pipeline.Script {
	library := libraryOf(name)
	return pipeline.NewScript(script.Source()+"-- "+name).
		WithLibrary(strings.ReplaceAll(script.Library(), script.Function(), library), library)
}

// libraryOf is what a version calls its library.
func libraryOf(version string) string {
	return fmt.Sprintf("%s%x", script.LibraryPrefix, sha1.Sum([]byte(version)))[:len(script.Function())]
}

// place is where a weir runs, one after the other.
type place struct {
	mu sync.RWMutex
	s  *Store
}

// Decide asks the weir that runs here.
func (p *place) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.s.Decide(ctx, checks, out)
}

// Close ends it.
func (p *place) Close() error { return p.s.Close() }

// next puts another weir into a place, and ends the one before, whose callers have their answers.
func (p *place) next(t *testing.T, s *Store) {
	t.Helper()
	p.mu.Lock()
	before := p.s
	p.s = s
	p.mu.Unlock()
	if before != nil {
		if err := before.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Replicas of one version end and those of another begin, one after the other, while both count on the same keys. The
// ways are those of a server that gets functions, or is denied them, in between.
func TestVersionsOfTheScriptCountSideBySide(t *testing.T) {
	t.Parallel()
	only := func(name string) *pipeline.Script { return pipeline.NewScript(script.Source() + "-- " + name) }
	for _, tc := range []struct {
		name          string
		on            topology.Type
		before, after func(version string) *pipeline.Script
	}{
		{"functions, then functions", topology.Cluster, version, version},
		{"scripts, then functions", topology.Single, only, version},
		{"functions, then scripts", topology.Ring, version, only},
		{"scripts, then scripts", topology.Sentinel, only, only},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := on(t, tc.on)
			from, to := tc.name+" 1", tc.name+" 2"
			var places [3]place
			for i := range places {
				places[i].next(t, openedWith(t, c, nil, tc.before(from)))
			}
			b := newBurden(t, tc.name+" a", tc.name+" b", tc.name+" c", tc.name+" d")
			stop := sync.OnceFunc(keepBusy(6, func(client int) { b.call(t, &places[client%len(places)]) }))
			defer stop()
			b.goOn(t, 50)
			for i := range places {
				places[i].next(t, openedWith(t, c, nil, tc.after(to)))
				b.goOn(t, 50)
			}
			stop()
			b.exact(t, &places[0])
			if tc.on == topology.Cluster {
				sideBySide(t, places[0].s, libraryOf(from), libraryOf(to))
			}
		})
	}
}

// sideBySide wants libraries on all servers.
func sideBySide(t *testing.T, s *Store, names ...string) {
	t.Helper()
	err := s.servers.Each(t.Context(), func(server string, do func(...any) (any, error)) error {
		list, err := do("function", "list")
		for _, name := range names {
			if err == nil && !strings.Contains(fmt.Sprint(list), name) {
				t.Errorf("%s has not library %s: %v", server, name, list)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
