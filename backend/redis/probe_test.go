package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

const secret = "hunter2"

// countingRules are the rights that counting takes where functions are allowed, scriptRules where they are not, or not
// known.
func countingRules() []string {
	return append(keyRules(), "+fcall", "+function|load", "+function|list")
}

func scriptRules() []string { return append(keyRules(), "+evalsha", "+script|load") }

func keyRules() []string {
	rules, _, _ := strings.Cut(rights, " +@scripting")
	return strings.Fields(rules)
}

func without(rules []string, missing string) []string {
	return slices.DeleteFunc(rules, func(rule string) bool { return rule == missing })
}

func TestRightsCoverEveryScriptCommand(t *testing.T) {
	for _, found := range regexp.MustCompile(`call\('([A-Z]+)'`).FindAllStringSubmatch(script.Source(), -1) {
		if rule := "+" + strings.ToLower(found[1]); !slices.Contains(strings.Fields(rights), rule) {
			t.Errorf("the rights that errors name have no %s, which the script needs", rule)
		}
	}
}

// probed is what the first probe finds of the servers of a configuration.
func probed(t *testing.T, c topology.Config) (found error) {
	t.Helper()
	s, _ := told(t, c)
	defer s.Close()
	process.Eventually(t, "the servers are probed", func() error {
		if found = s.ProbeErr(); found != nil && strings.Contains(found.Error(), "not been asked yet") {
			return found
		}
		return nil
	})
	return found
}

// An operator who pays for scripts where functions would do is told once, with the reason. All that an error names
// suffices for weir counters, too.
func TestRightsNamedByTheProbeSuffice(t *testing.T) {
	t.Parallel()
	const preloaded = "functions that somebody else loads"
	old := []redistest.Option{redistest.WithRelease(redistest.Releases(t)[0])}
	for name, tc := range map[string]struct {
		rules   []string
		options []redistest.Option
		told    string
	}{
		"all":                          {strings.Fields(rights), nil, "command=fcall name=weir_"},
		"all, without functions":       {strings.Fields(rights), old, "command=evalsha"},
		"functions":                    {countingRules(), nil, "command=fcall name=weir_"},
		preloaded:                      {without(countingRules(), "+function|load"), nil, "command=fcall name=weir_"},
		"functions that are forbidden": {scriptRules(), nil, "refused=\"NOPERM "},
		"functions that may not be listed": {without(append(countingRules(), scriptRules()...), "+function|list"), nil,
			"refused=\"NOPERM "},
		"no functions": {scriptRules(), old, "command=evalsha"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Single(t, append(tc.options, redistest.WithACL("ann", secret, tc.rules...))...)
			on := topology.Config{URL: s.Addr, Auth: "ann:" + secret}
			if name == preloaded {
				if err := s.Client().FunctionLoad(t.Context(), script.Library()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			store, log := told(t, on)
			process.Eventually(t, "it counts with the rights that errors name", store.ProbeErr)
			ttl, err := s.Client().PTTL(t.Context(), "weir:{probe 0}probe").Result()
			if err != nil || ttl > 10*time.Second || ttl == -1 {
				t.Errorf("the key of the probe lives for %v, %v; want that it is soon gone", ttl, err)
			}
			if name == "functions" && !slices.Equal(librariesOf(t, s), []string{script.Function()}) {
				t.Errorf("the libraries are %v; want %s", librariesOf(t, s), script.Function())
			}
			client := ownerOf(t, on)
			for range 3 {
				if err := store.probe(t.Context(), topology.Server{Name: s.Addr, Client: client}); err != nil {
					t.Error(err)
				}
			}
			if got := strings.Count(log.String(), tc.told); got != 1 {
				t.Errorf("four probes told %d times %q, want once:\n%s", got, tc.told, log)
			}
			for _, a := range []descriptors.Algorithm{
				descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.TokenBucket, descriptors.SlidingLog,
			} {
				key, limits := fmt.Append(nil, a), []descriptors.Limit{backendtest.NewLimit(t, 10, descriptors.Day, 1, a, 0)}
				for _, step := range []backend.Check{
					{Hits: 2}, {Hits: 4}, {Hits: 2}, {Op: backend.Look}, {Hits: 5}, {Op: backend.Refund, Hits: 2},
				} {
					step.Key, step.Limits = key, limits
					backendtest.Ask(t, store, step)
				}
				if !slices.Contains(tc.rules, "+hgetall") {
					continue
				}
				_, err := store.Inspect(t.Context(), key, limits)
				if err := errors.Join(err, store.Reset(t.Context(), key)); err != nil {
					t.Errorf("looking at %v, and resetting it: %v", a, err)
				}
			}
		})
	}
}

func TestMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithACL("ann", secret))
	on := topology.Config{URL: s.Addr, Auth: "ann:" + secret}
	grant := func(rules ...string) {
		t.Helper()
		all := append([]string{"reset", "on", ">" + secret}, rules...)
		if err := s.Client().ACLSetUser(context.Background(), "ann", all...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	line := "ACL SETUSER ann " + rights
	for _, missing := range countingRules() {
		grant(without(countingRules(), missing)...)
		err := probed(t, on)
		if err == nil || !strings.Contains(err.Error(), line) || strings.Contains(err.Error(), secret) {
			t.Errorf("without %s a probe gives %v, want an error with %q", missing, err, line)
		}
		ctx := context.Background()
		if err := errors.Join(s.Client().FlushAll(ctx).Err(), s.Client().FunctionFlush(ctx).Err()); err != nil {
			t.Fatal(err)
		}
	}
	grant(countingRules()...)
	if err := probed(t, on); err != nil {
		t.Errorf("with all of them: %v", err)
	}
}

func TestEveryRightIsDocumented(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../cmd/weir/OPERATION.md")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.FieldsFunc(string(document), func(r rune) bool { return r == '`' || unicode.IsSpace(r) })
	for _, rule := range slices.Concat(strings.Fields(rights), countingRules(), scriptRules()) {
		if !slices.Contains(words, rule) {
			t.Errorf("OPERATION.md does not name %s among the rights in Redis", rule)
		}
	}
}

func TestProbeExplainsEachFailure(t *testing.T) {
	t.Parallel()
	locked := redistest.Single(t, redistest.WithPassword(secret))
	lockedOld := redistest.Single(t, redistest.WithPassword(secret), redistest.WithRelease(redistest.Releases(t)[0]))
	readonly := redistest.Single(t, redistest.WithConfig("replicaof 127.0.0.1 1"))
	mapless := redistest.Single(t, redistest.WithACL("ann", secret, countingRules()...))
	set := redistest.Shared(t, "cluster").Cluster
	other := set.Nodes[0]
	if set.NodeOf(t, "{probe 0}") == other {
		other = set.Nodes[1]
	}
	tests := []struct {
		what   string
		config topology.Config
		want   string
	}{
		{"no password", topology.Config{URL: locked.Addr}, "the credentials are missing or wrong"},
		{"no password for a server without functions", topology.Config{URL: lockedOld.Addr}, "the credentials are missing or wrong"},
		{"a wrong password", topology.Config{URL: locked.Addr, Auth: "wrong"}, "the credentials are missing or wrong"},
		{"a replica", topology.Config{URL: readonly.Addr}, "it is a replica: name the primary"},
		{"a node of a cluster", topology.Config{URL: other.Addr}, "it is part of a cluster: set the type to cluster"},
		{"no right to the map of a cluster", topology.Config{Type: topology.Cluster, URL: mapless.Addr, Auth: "ann:" + secret},
			" +cluster|slots +asking"},
		{"nobody", topology.Config{URL: "127.0.0.1:1"}, "127.0.0.1:1: PING: "},
	}
	for _, test := range tests {
		if err := probed(t, test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s gives %v, want an error with %q", test.what, err, test.want)
		}
	}
}
