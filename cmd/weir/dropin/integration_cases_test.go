package dropin_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	configpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

const ok, over = rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT

// client asks a weir of the suite, and compares what it answers and counts.
type client struct {
	*weirtest.Client
	t *testing.T
	w *weirtest.Weir
}

func newClient(t *testing.T, w *weirtest.Weir) client { return client{w.Client(t), t, w} }

// of is a status of a limit, in the suite's words.
func of(code rlspb.RateLimitResponse_Code, requests int, unit rlspb.RateLimitResponse_RateLimit_Unit, remaining int) *rlspb.RateLimitResponse_DescriptorStatus {
	return &rlspb.RateLimitResponse_DescriptorStatus{Code: code, LimitRemaining: uint32(remaining),
		CurrentLimit: &rlspb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(requests), Unit: unit}}
}

// ask sends a hit of these descriptors, each key=value, and wants an answer that is equal but for the time until a limit
// resets, which it returns of the first.
func (c client) ask(domain string, code rlspb.RateLimitResponse_Code, asked []string, want ...*rlspb.RateLimitResponse_DescriptorStatus) int64 {
	c.t.Helper()
	request := &rlspb.RateLimitRequest{Domain: domain, HitsAddend: 1}
	for _, text := range asked {
		key, value, _ := strings.Cut(text, "=")
		request.Descriptors = append(request.Descriptors, weirtest.Describe(key, value))
	}
	answer, err := c.Forward(request)
	if err != nil {
		c.t.Fatal(err)
	}
	first := answer.Statuses[0].GetDurationUntilReset().GetSeconds()
	for _, s := range answer.Statuses {
		if limited := s.CurrentLimit != nil; limited != (s.DurationUntilReset.GetSeconds() > 0) {
			c.t.Errorf("%v is answered %v; want a reset if there is a limit", asked, answer)
		}
		s.DurationUntilReset = nil
	}
	if !proto.Equal(answer, &rlspb.RateLimitResponse{OverallCode: code, Statuses: want}) {
		c.t.Errorf("%v is answered %v, want %v, %v", asked, answer, code, want)
	}
	return first
}

// statistics returns what the debug port prints.
func (c client) statistics() map[string]int {
	c.t.Helper()
	text, err := weirtest.Get(c.w.Admin + "/stats")
	all := make(map[string]int)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, wrong := strconv.Atoi(value)
		all[name], err = n, errors.Join(err, wrong)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// counted wants a rule's hits: all, over, and over by the local cache.
func (c client) counted(rule string, total, over, cached int) {
	c.t.Helper()
	all, name := c.statistics(), "ratelimit.service.rate_limit."+rule
	if got := [3]int{all[name+".total_hits"], all[name+".over_limit"], all[name+".over_limit_with_local_cache"]}; got != [3]int{total, over, cached} {
		c.t.Errorf("%s has %v hits, over, by the local cache; want %v", rule, got, [3]int{total, over, cached})
	}
}

// cache wants so many hits and misses of the local cache.
func (c client) cache(hits, misses int) {
	c.t.Helper()
	all := c.statistics()
	if got := [2]int{all["ratelimit.localcache.hitCount"], all["ratelimit.localcache.missCount"]}; got != [2]int{hits, misses} {
		c.t.Errorf("the local cache has %v hits and misses, want %v", got, [2]int{hits, misses})
	}
}

// awaitRoomInMinute waits where the minute or hour is nearly over: what is limited by it is to be of one.
func awaitRoomInMinute() {
	weirtest.AwaitRoomInHour()
	if left := time.Minute - time.Since(time.Now().Truncate(time.Minute)); left < 10*time.Second {
		time.Sleep(left)
	}
}

// basicConfig is the case that most tests of the suite run in their variants.
func basicConfig(t *testing.T, settings string) {
	awaitRoomInMinute()
	c, cached := newClient(t, startOfSuite(t, settings)), strings.Contains(settings, localCache)
	only := func(n int) int { // with a local cache
		if cached {
			return n
		}
		return 0
	}
	value := "=" + t.Name()
	c.ask("foo", ok, []string{"hello=world"}, &rlspb.RateLimitResponse_DescriptorStatus{Code: ok})
	c.cache(0, 0)
	c.ask("basic", ok, []string{"key1" + value}, of(ok, 50, rlspb.RateLimitResponse_RateLimit_SECOND, 49))
	c.counted("basic.key1", 1, 0, 0)
	c.cache(0, only(1))
	for i := range 25 {
		code := ok
		if i >= 20 {
			code = over
		}
		c.ask("another", code, []string{"key2" + value}, of(code, 20, rlspb.RateLimitResponse_RateLimit_MINUTE, max(0, 19-i)))
		c.counted("another.key2", i+1, max(0, i-19), only(max(0, i-20)))
		c.cache(only(max(0, i-20)), only(min(i+2, 22)))
	}
	value += "-two"
	for i := range 15 {
		code, left := ok, 19-i
		if i >= 10 {
			code = over
			if strings.Contains(settings, stop) {
				left = 10
			}
		}
		c.ask("another", code, []string{"key2" + value, "key3" + value}, of(ok, 20, rlspb.RateLimitResponse_RateLimit_MINUTE, left),
			of(code, 10, rlspb.RateLimitResponse_RateLimit_HOUR, max(0, 9-i)))
		c.counted("another.key2", i+26, 5, only(4))
		c.counted("another.key3", i+1, max(0, i-9), only(max(0, i-10)))
		c.cache(only(4+max(0, i-10)), only(min(24+2*i, 34+i)))
	}
	day := rlspb.RateLimitResponse_RateLimit_DAY
	first, left := c.ask("another", ok, []string{"key4" + value}, of(ok, 20, day, 19)), 19
	c.w.Eventually(t, "the time until a limit resets goes down", func() error {
		time.Sleep(time.Second)
		left--
		if next := c.ask("another", ok, []string{"key4" + value}, of(ok, 20, day, left)); next >= first {
			return fmt.Errorf("it resets in %d s after %d s", next, first)
		}
		return nil
	})
}

// shareThreshold is the case of values that share a limit, and of values that do not.
func shareThreshold(t *testing.T, settings string) {
	awaitRoomInMinute()
	c := newClient(t, startOfSuite(t, settings))
	hour := rlspb.RateLimitResponse_RateLimit_HOUR
	for i := range 10 {
		c.ask("share-threshold-test", ok, []string{"files=files/a.pdf"}, of(ok, 10, hour, 9-i))
	}
	c.ask("share-threshold-test", over, []string{"files=files/b.csv"}, of(over, 10, hour, 0))
	for i := range 10 {
		c.ask("share-threshold-test", ok, []string{fmt.Sprint("files_no_share=files_no_share/", i)}, of(ok, 10, hour, 9))
	}
}

// reload is the case of rules that come and go.
func reload(t *testing.T, w *weirtest.Weir, add, remove func()) {
	c := newClient(t, w)
	const domain = "reload"
	c.ask(domain, ok, []string{"block=foo"}, &rlspb.RateLimitResponse_DescriptorStatus{Code: ok})
	for i, change := range []func(){add, remove} {
		before := c.statistics()["ratelimit.service.config_load_success"]
		change()
		w.Eventually(t, "a change is loaded", func() error {
			if n := c.statistics()["ratelimit.service.config_load_success"]; n <= before {
				return fmt.Errorf("%d configurations were loaded, and %d before", n, before)
			}
			return nil
		})
		if i == 0 {
			c.ask(domain, ok, []string{"key1=foo"}, of(ok, 50, rlspb.RateLimitResponse_RateLimit_SECOND, 49))
		}
	}
	c.ask(domain, ok, []string{"key1=foo"}, &rlspb.RateLimitResponse_DescriptorStatus{Code: ok})
}

func reloadConfig(t *testing.T, settings string) {
	w := startOfSuite(t, settings)
	reload(t, w, func() {
		w.Write(t, "reload.yaml", "domain: reload\ndescriptors:\n"+limitOf("key1", "second", 50)+limitOf("block", "second", 0))
	},
		func() {
			if err := os.Remove(filepath.Join(w.Config, "reload.yaml")); err != nil {
				t.Fatal(err)
			}
		})
}

func reloadConfigByXDS(t *testing.T, settings string) {
	control, xds := suiteControl(t)
	more := &configpb.RateLimitConfig{Name: "reload", Domain: "reload", Descriptors: []*configpb.RateLimitDescriptor{
		{Key: "key1", RateLimit: &configpb.RateLimitPolicy{RequestsPerUnit: 50, Unit: configpb.RateLimitUnit_SECOND}}}}
	reload(t, startOfSuite(t, settings+xds), func() { control.set(t, append(suiteConfigs(), more)...) },
		func() { control.set(t, suiteConfigs()...) })
}

// statsdReader listens as statsd, and returns what counters add up to, by their lines up to the colon.
func statsdReader(t *testing.T, addr string) (port string, sums func() map[string]int) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	all := make(map[string]int)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				name, rest, _ := strings.Cut(lines.Text(), ":")
				n, err := strconv.Atoi(strings.TrimSuffix(rest, "|c"))
				mu.Lock()
				if err == nil {
					all[name] += n
				}
				mu.Unlock()
			}
			conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		sums := make(map[string]int)
		for name, n := range all {
			sums[name] = n
		}
		return sums
	}
}

// extraTags is the case of tags of all statistics, which the suite reads in statsd's form.
func extraTags(t *testing.T, settings string) {
	port, sums := statsdReader(t, "127.0.0.1:0")
	c := newClient(t, startOfSuite(t, settings+" USE_STATSD=true STATS_FLUSH_INTERVAL=100ms STATSD_HOST=127.0.0.1 STATSD_PORT="+port))
	c.ask("basic", ok, []string{"key1=foo"}, of(ok, 50, rlspb.RateLimitResponse_RateLimit_SECOND, 49))
	c.w.Eventually(t, "statistics have all tags", func() error {
		for _, name := range []string{"ratelimit.service.rate_limit.basic.key1.total_hits", "ratelimit.service.config_load_success"} {
			if got := sums(); got[name+".__a=b.__foo=bar"] != 1 {
				return fmt.Errorf("%s is not 1 in %v", name, got)
			}
		}
		return nil
	})
}

// trust returns a client's configuration that trusts an authority, and shows certificates if it has some.
func trust(a *certstest.Authority, shown ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM)
	return &tls.Config{RootCAs: pool, Certificates: shown, MinVersion: tls.VersionTLS12, ServerName: "localhost", NextProtos: []string{"h2"}}
}

// mountPair mounts a new certificate for localhost and its key.
func mountPair(t *testing.T, dir string, a *certstest.Authority) {
	t.Helper()
	cert, key := a.Issue(t, "localhost")
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": a.PEM})
}

// mutualTLS is the case of clients that show a certificate; the suite asks nothing there, and here they are answered.
func mutualTLS(t *testing.T, settings string) {
	server, clients, dir, clientDir := certstest.New(t, "server"), certstest.New(t, "clients"), t.TempDir(), t.TempDir()
	mountPair(t, dir, server)
	mountPair(t, clientDir, clients)
	w := startOfSuite(t, settings+" GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT="+dir+"/tls.crt GRPC_SERVER_TLS_KEY="+dir+"/tls.key"+
		" GRPC_CLIENT_TLS_SAN=localhost GRPC_CLIENT_TLS_CACERT="+clientDir+"/ca.crt")
	for shown, want := range map[*tls.Config]bool{trust(server, clients.KeyPair(t, "localhost")): true, trust(server): false,
		trust(server, clients.KeyPair(t, "elsewhere")): false} {
		_, err := weirtest.Dial(t, w.GRPC, grpc.WithTransportCredentials(credentials.NewTLS(shown))).Ask("basic", weirtest.Describe("key1", "foo"))
		if (err == nil) != want {
			t.Errorf("a client with %d certificates is answered %v, want an answer: %v", len(shown.Certificates), err, want)
		}
	}
}

// reloadCertificates is the case of a certificate that is replaced.
func reloadCertificates(t *testing.T, settings string) {
	initial, next, dir := certstest.New(t, "initial"), certstest.New(t, "next"), t.TempDir()
	mountPair(t, dir, initial)
	w := startOfSuite(t, settings+" GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT="+dir+"/tls.crt GRPC_SERVER_TLS_KEY="+dir+"/tls.key")
	dial := func(a *certstest.Authority) error {
		conn, err := tls.Dial("tcp", w.GRPC, trust(a))
		if err == nil {
			conn.Close()
		}
		return err
	}
	trusted := func(yes, no *certstest.Authority) error {
		if err := dial(no); err == nil {
			return errors.New("the other authority's clients are served")
		}
		return dial(yes)
	}
	if err := trusted(initial, next); err != nil {
		t.Error(err)
	}
	mountPair(t, dir, next)
	w.Eventually(t, "the next certificate is shown", func() error { return trusted(next, initial) })
}
