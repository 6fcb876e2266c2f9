package dropin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// request is what a script sends, and what is to come.
type request struct {
	path, headers string // headers are key=value, separated by spaces
	want          string // a status for each time that it is sent, or what a header of the answer says
	header        string // that, "" for the status
	charged       string // the stem of the key that the response charges with one hit, "" for none
}

// nextMinute is the request of a script that waits until the minute is over: here the counts are gone.
var nextMinute = request{}

const (
	banned   = "foo=bkthomps bar=banned"
	replaced = "foo=my_foo bar=bkthomps source_cluster=proxy destination_cluster="
	third    = "foo=foo_3 bar=bar_3 source_cluster=proxy destination_cluster=fake"
)

// composeScripts are the scripts of envoyproxy/ratelimit's compose file, by their names there. What they send is theirs.
var composeScripts = map[string][]request{
	"simple-get.sh":        {{path: "/twoheader", headers: "foo=test baz=shady", want: "200"}},
	"trigger-ratelimit.sh": {{path: "/twoheader", headers: "foo=pelle baz=not-so-shady", want: "200 200 200 429 429"}},
	"trigger-shadow-mode-key.sh": {{path: "/twoheader", headers: "foo=pelle baz=shady", want: "200 200 200 200 200"},
		{path: "/twoheader", headers: "foo=pelle baz=shady", want: "0", header: "x-ratelimit-remaining"}},
	"replaces.sh": {
		{path: "/twoheader", headers: banned, want: "429"},
		{path: "/fourheader", headers: banned + " source_cluster=proxy destination_cluster=mock", want: "429"},
		{path: "/fourheader", headers: banned + " source_cluster=proxy destination_cluster=override", want: "200 200 429"},
		{path: "/fourheader", headers: replaced + "bkthomps", want: "200 200 429"},
		{path: "/fourheader", headers: replaced + "not_bkthomps", want: "200 429"},
		{path: "/fourheader", headers: replaced + "bkthomps", want: "429"},
		{path: "/fiveheader", headers: replaced + "fake category=account", want: "200 200 200 200 429"},
		{path: "/twoheader", headers: "foo=foo_2 bar=bkthomps", want: "200 429"},
		{path: "/fourheader", headers: third, want: "200 200 429"},
		{path: "/fiveheader", headers: replaced + "fake category=account", want: "429"},
	},
	"quota.sh": {{path: "/quota", want: "200 200 429"}, nextMinute, {path: "/quota", want: "200"}},
	"token-quota.sh": {{path: "/tokenquota", want: "200 200 200", charged: "rl_service_service_2_"},
		{path: "/tokenquota", want: "429", charged: "rl_service_service_2_"}, nextMinute,
		{path: "/tokenquota", want: "200", charged: "rl_service_service_2_"}},
	"multiservice-tokenquota.sh": {
		{path: "/multiservice-tokenquota", want: "service_1 service_1", header: "x-served-by", charged: "rl_service_service_1_"},
		{path: "/multiservice-tokenquota", want: "service_2 service_2 service_2", header: "x-served-by", charged: "rl_service_service_2_"},
		{path: "/multiservice-tokenquota", want: "429"}, nextMinute,
		{path: "/multiservice-tokenquota", want: "service_1", header: "x-served-by", charged: "rl_service_service_1_"},
	},
	"value-included-in-stats-key-when-unspecified.sh": {{path: "/unspec", headers: "unspec=unspecified_value", want: "200 200 429"}},
}

func TestScriptsOfRatelimitsComposeFilePass(t *testing.T) {
	t.Parallel()
	redis, root := redistest.Single(t), t.TempDir()
	statsd, sums := statsdReader(t, "127.0.0.1:0")
	w := weirtest.New(t, "USE_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+statsd, "STATS_FLUSH_INTERVAL=100ms", "LOG_LEVEL=debug",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, weirtest.PatientRedis, "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit",
		"RUNTIME_WATCH_ROOT=false", "RESPONSE_DYNAMIC_METADATA=true", "DRAIN_DELAY=0s")
	w.Config = filepath.Join(root, "ratelimit", "config")
	rules, err := os.ReadFile(filepath.Join("testdata", "compose-rules.yaml"))
	if err != nil || os.MkdirAll(w.Config, 0o755) != nil {
		t.Fatal(err)
	}
	w.Write(t, "example.yaml", string(rules))
	_, services, _ := strings.Cut(string(rules), "- {key: service,")
	w.Write(t, "quota.yaml", "domain: quota\ndescriptors:\n- {key: service,"+services)
	w.Start(t, process.Ratelimit(t), "/bin/ratelimit")
	w.AwaitReady(t)
	_, port, _ := strings.Cut(w.GRPC, ":")
	foo, clusters := []string{"foo", "bar"}, []string{"source_cluster", "destination_cluster"}
	e := startEnvoy(t, "compose.yaml.tmpl", map[string]any{"WeirPort": port, "Domains": []string{"rl", "quota"}, "Routes": map[string][][]string{
		"/twoheader": {foo, {"foo", "baz"}}, "/fourheader": {foo, clusters}, "/fiveheader": {foo, clusters, {"category"}}, "/unspec": {{"unspec"}},
	}})
	for name, requests := range composeScripts {
		t.Run(name, func(t *testing.T) {
			awaitRoomInMinute()
			flush(t, redis)
			for _, r := range requests {
				if r == nextMinute {
					flush(t, redis)
					continue
				}
				e.follow(t, redis, r)
			}
		})
	}
	w.Eventually(t, "the value that no rule names is told by statsd", func() error {
		if n := sums()["ratelimit.service.rate_limit.rl.unspec_unspecified_value.over_limit"]; n != 1 {
			return fmt.Errorf("over_limit is %d, want 1, in %v", n, sums())
		}
		return nil
	})
	e.wantErrors(t, 0)
}

func flush(t *testing.T, server *redistest.Server) {
	t.Helper()
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// follow sends a request as often as answers are wanted, each when the one before it is charged.
func (e *envoy) follow(t *testing.T, redis *redistest.Server, r request) {
	t.Helper()
	var got []string
	for range strings.Fields(r.want) {
		q, err := http.NewRequestWithContext(t.Context(), "GET", e.url+r.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range strings.Fields(r.headers) {
			name, value, _ := strings.Cut(pair, "=")
			q.Header.Set(name, value)
		}
		before := counted(t, redis, r.charged)
		answer, err := weirtest.Patient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if r.header == "" {
			got = append(got, fmt.Sprint(answer.StatusCode))
		} else {
			got = append(got, answer.Header.Get(r.header))
		}
		if r.charged != "" {
			weirtest.Eventually(t, "the response charges", func() error {
				if n := counted(t, redis, r.charged); n != before+1 {
					return fmt.Errorf("%s* holds %d, want %d", r.charged, n, before+1)
				}
				return nil
			})
		}
	}
	if text := strings.Join(got, " "); text != r.want {
		t.Errorf("%s with %s is answered %s, want %s", r.path, r.headers, text, r.want)
	}
}
