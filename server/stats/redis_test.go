package stats

import (
	"strings"
	"testing"
	"time"
)

func TestEachRedisServerIsMeasuredUntilGone(t *testing.T) {
	m := New("test")
	r := m.RegisterRedis()
	away := map[string]bool{"a:1": false, "b:2": true}
	r.RegisterServers("main", func(yield func(string, bool, bool)) {
		for server, is := range away {
			yield(server, is, !is)
		}
	})
	a, b := r.Server("main", "a:1"), r.Server("main", "b:2")
	a.Answered(3 * time.Millisecond)
	a.Waited(200 * time.Microsecond)
	b.Waited(time.Second)
	scrape := func() string { return strings.Join(m.scrapeLines("weir_redis_"), "\n") + "\n" }
	text := scrape()
	for _, line := range []string{
		`weir_redis_breaker_open{redis="main",server="a:1"} 0`,
		`weir_redis_breaker_open{redis="main",server="b:2"} 1`,
		`weir_redis_foreign_library{redis="main",server="a:1"} 1`,
		`weir_redis_foreign_library{redis="main",server="b:2"} 0`,
		`weir_redis_answer_seconds_bucket{redis="main",server="a:1",le="0.0025"} 0`,
		`weir_redis_answer_seconds_bucket{redis="main",server="a:1",le="0.005"} 1`,
		`weir_redis_wait_seconds_count{redis="main",server="a:1"} 1`,
		`weir_redis_wait_seconds_sum{redis="main",server="b:2"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("a scrape has not %s:\n%s", line, text)
		}
	}
	delete(away, "b:2")
	r.Server("main", "a:1").Gone() // one of two that lead there
	b.Gone()
	if text := scrape(); strings.Contains(text, "b:2") || !strings.Contains(text, "a:1") {
		t.Errorf("a scrape tells of a server that is gone, or not of another one:\n%s", text)
	}
}
