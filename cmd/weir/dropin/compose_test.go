package dropin_test

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// A compose file says command: /bin/ratelimit, which becomes an argument of the image's entry point.
func TestAComposeFilesCommandStartsItAndAnEmptyConfigurationAnswersOK(t *testing.T) {
	onNode(t, func(t *testing.T) {
		weirtest.AwaitRoomInHour()
		redis := redistest.Single(t)
		redistest.ProxyAt(t, "127.0.0.1:6379", redis.Addr)
		sink := startStatsd(t, "127.0.0.1:8125")
		config := newVolume(t, nil)
		weir := container{
			Host: "8f14e45fceea", User: 65532, Command: []string{"/bin/weir", "/bin/ratelimit"},
			Mounts: map[string]string{"/data/ratelimit/config": config},
		}.start(t, []string{
			"LOG_LEVEL=debug", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis:6379", "RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit",
			"RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true", "STATS_FLUSH_INTERVAL=1s",
		})
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:8080/healthcheck", 200) })
		// It is healthy before it has read any files.
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:6070/readyz", 200) })
		client := weirtest.Dial(t, "127.0.0.1:8081")
		wantVerdicts := func(promise string, want ...string) {
			t.Helper()
			for i, want := range want {
				answer, err := client.Ask("shop", weirtest.Describe("plan", "basic"))
				if got := answer.GetOverallCode().String(); err != nil || got != want {
					t.Errorf("%s: hit %d is answered %s (%v), want %s", promise, i+1, got, err, want)
				}
			}
		}
		wantVerdicts("without any rule", "OK")

		writeVolume(t, config, map[string]string{"shop.yaml": "domain: shop\ndescriptors: [{key: plan, value: basic, rate_limit: {unit: hour, requests_per_unit: 3}}]"})
		wantRules(t, "a file that comes is read", "http://127.0.0.1:6070/rlconfig",
			"shop.plan_basic: unit=HOUR requests_per_unit=3, shadow_mode: false, quota_mode: false")
		wantVerdicts("3 an hour", "OK", "OK", "OK", "OVER_LIMIT", "OVER_LIMIT")
		for name, want := range map[string]int{
			"ratelimit.service.rate_limit.shop.plan_basic.total_hits":   5,
			"ratelimit.service.rate_limit.shop.plan_basic.over_limit":   2,
			"ratelimit.service.rate_limit.shop.plan_basic.within_limit": 3,
			"ratelimit.service.rate_limit.shop.plan_basic.near_limit":   1,
			"ratelimit_server.ShouldRateLimit.total_requests":           6,
		} {
			weirtest.Eventually(t, "statsd hears of it", func() error { return sink.wants(name, want) })
		}
	})
}

// statsd adds up the counters that it is sent over TCP.
type statsd struct {
	mu   sync.Mutex
	sums map[string]int
}

func startStatsd(t *testing.T, addr string) *statsd {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &statsd{sums: make(map[string]int)}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					name, value, _ := strings.Cut(strings.TrimSuffix(lines.Text(), "|c"), ":")
					n, _ := strconv.Atoi(value) // what is no counter has another suffix
					s.mu.Lock()
					s.sums[name] += n
					s.mu.Unlock()
				}
			}()
		}
	}()
	return s
}

// wants returns an error unless a counter was raised by so much in all.
func (s *statsd) wants(name string, want int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums[name] != want {
		return fmt.Errorf("%s is %d, want %d, of %v", name, s.sums[name], want, s.sums)
	}
	return nil
}
