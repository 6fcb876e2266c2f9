package dropin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// variant is a subtest of envoyproxy/ratelimit's integration suite: its name there, and what it sets.
type variant struct{ name, settings string }

// suite is a test of that suite: its name there, the settings that lead to its servers, and its variants.
type suite struct {
	name     string
	servers  func(t *testing.T) string
	variants []variant
	run      func(t *testing.T, settings string) // basicConfig if nil
}

const (
	perSecond  = " REDIS_PERSECOND=true"
	localCache = " LOCAL_CACHE_SIZE_IN_BYTES=1000"
	stop       = " STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"
	memcache   = "BACKEND_TYPE=memcache MEMCACHE_TIMEOUT=60s MEMCACHE_HOST_PORT="
)

// four are the variants that most tests have.
func four(suffix string) []variant {
	return []variant{
		{"WithoutPerSecondRedis" + suffix, ""}, {"WithPerSecondRedis" + suffix, perSecond},
		{"WithoutPerSecondRedis" + suffix + "WithLocalCache", localCache}, {"WithPerSecondRedis" + suffix + "WithLocalCache", perSecond + localCache},
	}
}

var integrationSuite = []suite{
	{"TestBasicConfig", redises("single", ""), append(four(""),
		variant{"WithoutPerSecondRedisWithCachePrefix", " CACHE_KEY_PREFIX=prefix:"},
		variant{"WithoutPerSecondRedisWithstopCacheKeyIncrementWhenOverlimitConfig", stop},
		variant{"WithPerSecondRedisWithstopCacheKeyIncrementWhenOverlimitConfig", perSecond + stop},
		variant{"WithoutPerSecondRedisWithLocalCacheAndstopCacheKeyIncrementWhenOverlimitConfig", localCache + stop},
		variant{"WithPerSecondRedisWithLocalCacheAndstopCacheKeyIncrementWhenOverlimitConfig", perSecond + localCache + stop}), nil},
	{"TestXdsProviderBasicConfig", redises("single", ""), four(""), basicConfigByXDS},
	{"TestBasicConfig_ExtraTags", redises("single", ""), []variant{{"", " EXTRA_TAGS=foo:bar,a:b"}}, extraTags},
	{"TestBasicTLSConfig", redises("single", "", redistest.WithTLS(), redistest.WithPassword("password123"), redistest.WithConfig("tls-auth-clients no")),
		four("TLS"), nil},
	{"TestBasicTLSConfig", redises("single", "client", redistest.WithTLS(), redistest.WithPassword("password123")),
		[]variant{{"WithoutPerSecondRedisTLSWithClientCert", ""}}, nil},
	{"TestBasicAuthConfig", redises("single", "", redistest.WithPassword("password123")), four("Auth"), nil},
	{"TestBasicAuthConfigWithRedisCluster", redises("cluster", "", redistest.WithPassword("password123")), four("Auth"), nil},
	{"TestBasicAuthConfigWithRedisSentinel", redises("sentinel", "", redistest.WithPassword("password123")), four("Auth"), nil},
	{"TestBasicReloadConfig", redises("single", ""), []variant{{"BasicWithoutWatchRoot", " RUNTIME_WATCH_ROOT=false"}}, nil},
	{"TestBasicReloadConfig", redises("single", ""), []variant{{"ReloadWithoutWatchRoot", " RUNTIME_WATCH_ROOT=false"}}, reloadConfig},
	{"TestXdsProviderBasicConfigReload", redises("single", ""), []variant{{"ReloadConfigWithXdsServer", ""}}, reloadConfigByXDS},
	{"TestBasicConfigMemcache", memcacheds(1), []variant{{"Memcache", ""}, {"MemcacheWithLocalCache", localCache},
		{"MemcacheWithPrefix", " CACHE_KEY_PREFIX=prefix:"}}, nil},
	{"TestConfigMemcacheWithMaxIdleConns", memcacheds(1), []variant{{"MemcacheWithDefaultMaxIdleConns", ""},
		{"MemcacheWithSpecifiedMaxIdleConns", " MEMCACHE_MAX_IDLE_CONNS=100"}}, nil},
	{"TestMultiNodeMemcache", memcacheds(2), []variant{{"MemcacheMultipleNodes", ""}}, nil},
	{"Test_mTLS", redises("single", ""), []variant{{"", ""}}, mutualTLS},
	{"TestReloadGRPCServerCerts", redises("single", ""), []variant{{"", ""}}, reloadCertificates},
	{"TestShareThreshold", redises("single", ""), []variant{{"WithoutPerSecondRedis", ""}}, shareThreshold},
}

// What envoyproxy/ratelimit's own integration suite asks of that program, asked of weir under its name, in its
// environment: the cases are its own, written anew, under its names. There the server is a part of the test; here it is
// the binary, and the statistics are read from its debug port. make test has the first variant.
func TestRatelimitsIntegrationSuitePasses(t *testing.T) {
	t.Parallel()
	suites := integrationSuite
	if testing.Short() {
		suites = []suite{suites[0]}
		suites[0].variants = suites[0].variants[:1]
	}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			servers, run := s.servers(t), s.run
			if run == nil {
				run = basicConfig
			}
			for _, v := range s.variants {
				t.Run(v.name, func(t *testing.T) { run(t, servers+v.settings) })
			}
		})
	}
}

// redises starts two sets of servers of a REDIS_TYPE, the second for limits by the second.
func redises(kind, clientCertificate string, options ...redistest.Option) func(t *testing.T) string {
	return func(t *testing.T) string {
		var settings strings.Builder
		settings.WriteString(weirtest.PatientRedis + " REDIS_PERSECOND_TIMEOUT=60s")
		var authorities []byte
		for i, prefix := range []string{"REDIS_", "REDIS_PERSECOND_"} {
			set := redistest.Start(t, kind, options...)
			fmt.Fprintf(&settings, " %[1]sSOCKET_TYPE=tcp %[1]sTYPE=%[2]s %[1]sURL=%[3]s %[1]sPIPELINE_LIMIT=8", prefix, kind, set.URL)
			if len(options) > 0 { // each has a password
				fmt.Fprintf(&settings, " %sAUTH=password123", prefix)
			}
			if tls := set.Servers[0].TLS; tls != nil {
				fmt.Fprintf(&settings, " %sTLS=true", prefix)
				ca, err := os.ReadFile(tls.CA)
				if err != nil {
					t.Fatal(err)
				}
				authorities = append(authorities, ca...)
				if i == 0 && clientCertificate != "" {
					fmt.Fprintf(&settings, " REDIS_TLS_CLIENT_CERT=%s REDIS_TLS_CLIENT_KEY=%s REDIS_TLS_CACERT=%s", tls.Cert, tls.Key, tls.CA)
				}
			}
		}
		if authorities != nil && clientCertificate == "" { // which the suite's Makefile makes the system trust
			file := filepath.Join(t.TempDir(), "system.pem")
			if err := os.WriteFile(file, authorities, 0o644); err != nil {
				t.Fatal(err)
			}
			settings.WriteString(" SSL_CERT_FILE=" + file)
		}
		return settings.String()
	}
}

func memcacheds(n int) func(t *testing.T) string {
	return func(t *testing.T) string { return memcache + strings.Join(memcachedtest.StartAll(t, n), ",") }
}

// suiteFiles are the descriptor files that the suite's requests meet.
var suiteFiles = map[string]string{
	"basic.yaml": "domain: basic\ndescriptors:\n" + limitOf("key1", "second", 50) + limitOf("one_per_minute", "minute", 1),
	"another.yaml": "domain: another\ndescriptors:\n" + limitOf("key2", "minute", 20) + limitOf("key3", "hour", 10) +
		limitOf("key4", "day", 20),
	"share_threshold.yaml": "domain: share-threshold-test\ndescriptors:\n" +
		"- {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}\n" +
		"- {key: files_no_share, value: files_no_share/*, rate_limit: {unit: hour, requests_per_unit: 10}}\n",
}

func limitOf(key, unit string, requests int) string {
	return fmt.Sprintf("- {key: %s, rate_limit: {unit: %s, requests_per_unit: %d}}\n", key, unit, requests)
}

// startOfSuite starts weir with the suite's environment and files.
func startOfSuite(t *testing.T, settings string) *weirtest.Weir {
	t.Helper()
	root := t.TempDir()
	env := []string{"USE_STATSD=false", "RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_APPDIRECTORY=config", "DRAIN_DELAY=0s"}
	w := weirtest.New(t, append(env, strings.Fields(settings)...)...)
	w.Config = filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(w.Config, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range suiteFiles {
		w.Write(t, name, text)
	}
	w.Start(t, process.Ratelimit(t))
	w.AwaitReady(t)
	w.Eventually(t, "its store has answered", func() error { return weirtest.WantStatus(w.HTTP+"/healthcheck", 200) })
	return w
}

// suiteControl serves the suite's rules by xDS, and returns the settings that lead there.
func suiteControl(t *testing.T) (c *controlPlane, settings string) {
	t.Helper()
	addr := process.Addr(t)
	c = startControlPlane(t, addr, "init-test-node", nil)
	c.set(t, suiteConfigs()...)
	return c, " CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_NODE_ID=init-test-node CONFIG_GRPC_XDS_SERVER_URL=" + addr
}

func suiteConfigs() []*configpb.RateLimitConfig {
	one := func(key string, unit configpb.RateLimitUnit, requests uint32) *configpb.RateLimitDescriptor {
		return &configpb.RateLimitDescriptor{Key: key, RateLimit: &configpb.RateLimitPolicy{RequestsPerUnit: requests, Unit: unit}}
	}
	return []*configpb.RateLimitConfig{
		{Name: "basic", Domain: "basic", Descriptors: []*configpb.RateLimitDescriptor{one("key1", configpb.RateLimitUnit_SECOND, 50)}},
		{Name: "another", Domain: "another", Descriptors: []*configpb.RateLimitDescriptor{one("key2", configpb.RateLimitUnit_MINUTE, 20),
			one("key3", configpb.RateLimitUnit_HOUR, 10), one("key4", configpb.RateLimitUnit_DAY, 20)}},
	}
}

func basicConfigByXDS(t *testing.T, settings string) {
	_, xds := suiteControl(t)
	basicConfig(t, settings+xds)
}
