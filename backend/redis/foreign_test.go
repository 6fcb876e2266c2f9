package redis

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// other is a library of a tenant, with a function that never denies.
const other = "other"

// foreignLibrary is a tenant's library of a name that registers a function, with a comment behind it.
func foreignLibrary(name, function, comment string) string {
	return fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function(keys)\n"+
		"\tlocal answers = {}\n\tfor i in ipairs(keys) do answers[i] = string.rep('\\0', 17) end\n"+
		"\treturn answers\nend) -- %s\n", name, function, comment)
}

// tenantOf returns a client by a user with all rights but those of operators, and no key of weir.
func tenantOf(t *testing.T, server *redistest.Server) *goredis.Client {
	t.Helper()
	rules := []string{"on", ">" + secret, "~other:*", "+@all", "-@admin", "-@dangerous"}
	if err := server.Client().ACLSetUser(t.Context(), "tenant", rules...).Err(); err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "tenant", Password: secret})
	t.Cleanup(func() { client.Close() })
	return client
}

// A tenant of the same Redis takes the place of weir's library while weir counts. weir is told of it by no error.
func TestForeignLibraryIsNotCalled(t *testing.T) {
	t.Parallel()
	replace := func(t *testing.T, tenant *goredis.Client) string {
		if err := tenant.FunctionLoadReplace(t.Context(), foreignLibrary(script.Function(), script.Function(), "")).Err(); err != nil {
			t.Fatal(err)
		}
		return script.Function()
	}
	withFunctions(t, func(t *testing.T, release string) {
		for name, take := range map[string]func(*testing.T, *goredis.Client) string{
			"of the same name": replace,
			"of another name": func(t *testing.T, tenant *goredis.Client) string { // Redis ignores the case of functions
				library := foreignLibrary(other, strings.ToUpper(script.Function()), "")
				tenant.FunctionDelete(t.Context(), script.Function())
				if err := tenant.FunctionLoad(t.Context(), library).Err(); err != nil {
					t.Fatal(err)
				}
				return other
			},
			"too large to be read": func(t *testing.T, tenant *goredis.Client) string {
				library := foreignLibrary(script.Function(), script.Function(), strings.Repeat("x", 17<<20))
				if err := tenant.FunctionLoadReplace(t.Context(), library).Err(); err != nil {
					t.Fatal(err)
				}
				return script.Function()
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Single(t, redistest.WithRelease(release))
				testForeignLibrary(t, topology.Config{URL: server.Addr}, []*redistest.Server{server}, take)
			})
		}
	})
	for _, kind := range []topology.Type{topology.Cluster, topology.Ring} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			set := redistest.Start(t, string(kind))
			servers := set.Servers
			if set.Cluster != nil {
				servers = set.Cluster.Primaries(t)
			}
			testForeignLibrary(t, topology.Config{Type: kind, URL: set.URL, Fixed: true}, servers, replace)
		})
	}
}

// hitKeys is a store under load of the same keys, which are on all servers.
type hitKeys struct {
	*Store
	checks   []backend.Check // of one hit each
	admitted []int           // hits of each
}

func (h *hitKeys) hit(t *testing.T, times int) {
	t.Helper()
	for range times {
		out := make([]backend.Decision, len(h.checks))
		if err := backend.DecideAll(t.Context(), h, h.checks, out); err != nil {
			t.Fatal(err)
		}
		for i, d := range out {
			if d.Allowed {
				h.admitted[i]++
			}
		}
	}
}

// foreign compares the libraries at a time, and returns the names of those that are foreign, one for each server.
func (h *hitKeys) foreign(t *testing.T, now time.Time) (libraries []string) {
	looks := slices.Clone(h.checks)
	for i := range looks {
		looks[i].Op = backend.Look
	}
	_ = h.Decide(t.Context(), looks, make([]backend.Decision, len(looks))) // only servers that are asked are compared
	h.CompareLibraries(t.Context(), now, h.logCallMode)
	for _, server := range h.Stats().Servers {
		if server.Foreign != "" {
			libraries = append(libraries, server.Foreign)
		}
	}
	return libraries
}

// testForeignLibrary has a tenant take the place of the library on one server after the other.
func testForeignLibrary(t *testing.T, c topology.Config, servers []*redistest.Server, take func(*testing.T, *goredis.Client) string) {
	log, now := new(process.Output), new(atomic.Int64)
	now.Store(time.Now().UnixMicro())
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	h := &hitKeys{Store: opened(t, c, now), admitted: make([]int, 60)}
	for key := range h.admitted {
		h.checks = append(h.checks, backend.Check{Key: fmt.Append(nil, "key", key), Limits: hourly(t, 4), Hits: 1})
	}
	h.hit(t, 2)
	var want []string
	for _, server := range servers {
		want = append(want, take(t, tenantOf(t, server)))
		asked := callsOf(t, "calls", server)["function|list"]
		redistest.Until(t, "a comparison finds the foreign library", func() bool {
			found := h.foreign(t, time.Now())
			if n := callsOf(t, "calls", server)["function|list"] - asked; n > 20 && !slices.Equal(found, want) {
				t.Fatalf("%d comparisons found the foreign libraries %v, want %v", n, found, want)
			}
			return slices.Equal(found, want)
		})
	}
	before := callsOf(t, "calls", servers...)["fcall"]
	h.hit(t, 4)
	for i, n := range h.admitted {
		if n != 4 {
			t.Errorf("%s was admitted %d hits, want 4: a foreign function has no say", h.checks[i].Key, n)
		}
	}
	if n := callsOf(t, "calls", servers...)["fcall"]; n != before {
		t.Errorf("%d calls of a function that is known to be foreign, want none", n-before)
	}
	for _, line := range []string{"level=WARN msg=\"foreign redis library\"", "library=" + want[0],
		"remedy=\"ACL SETUSER OTHER -function, for all others; FUNCTION DELETE " + want[0] + "\""} {
		if got := strings.Count(log.String(), line); got != len(servers) {
			t.Errorf("the log has %d times %s, want once for each of %d servers:\n%s", got, line, len(servers), log)
		}
	}
	for _, server := range servers {
		if err := server.Client().FunctionDelete(t.Context(), want[0]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if h.foreign(t, time.Now()); callsOf(t, "calls", servers...)["fcall"] != before {
		t.Error("a function is called as soon as it is weir's again: it may be replaced again between two comparisons")
	}
	later := time.Now().Add(pipeline.DistrustTime)
	redistest.Until(t, "the libraries are weir's again", func() bool { return len(h.foreign(t, later)) == 0 })
	h.hit(t, 1)
	if n := callsOf(t, "calls", servers...)["fcall"]; n < before+len(servers) {
		t.Errorf("%d calls of weir's function after it is back, want one of each server", n-before)
	}
}

// A user who may not run scripts counts nothing while the library is foreign: the failure policy decides.
func TestForeignLibraryWithoutScriptsCountsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.WithACL("ann", secret, countingRules()...))
	s := opened(t, topology.Config{URL: server.Addr, Auth: "ann:" + secret}, nil)
	hit := []backend.Check{{Key: []byte("key"), Limits: hourly(t, 4), Hits: 1}}
	if err := backend.DecideAll(t.Context(), s, hit, make([]backend.Decision, 1)); err != nil {
		t.Fatal(err)
	}
	library := foreignLibrary(script.Function(), script.Function(), "")
	if err := tenantOf(t, server).FunctionLoadReplace(t.Context(), library).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "a comparison finds the foreign library", func() bool {
		look := []backend.Check{{Key: []byte("key"), Limits: hit[0].Limits, Op: backend.Look}}
		_ = s.Decide(t.Context(), look, make([]backend.Decision, 1)) // only servers that are asked are compared
		s.CompareLibraries(t.Context(), time.Now(), s.logCallMode)
		servers := s.Stats().Servers
		return len(servers) == 1 && servers[0].Foreign != ""
	})
	before := callsOf(t, "calls", server)["fcall"]
	if err := backend.DecideAll(t.Context(), s, hit, make([]backend.Decision, 1)); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a check gets %v, want that the user may not run scripts", err)
	}
	if n := callsOf(t, "calls", server)["fcall"]; n != before {
		t.Errorf("%d calls of a function that is known to be foreign, want none", n-before)
	}
}
