package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// One when requests begin to be decided by policies, which says what these do, and one when all servers count again.
func TestAnOutageIsTwoLinesOfTheLog(t *testing.T) {
	config, problems := yaml.Parse([]yaml.File{{Name: "shop.yaml", Data: []byte(`
domain: shop
descriptors:
  - {key: a, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: b, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: login, on_backend_failure: deny, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: watched, on_backend_failure: local, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: free, rate_limit: {unlimited: true}}
`)}}, yaml.Options{Algorithm: descriptors.SlidingWindow})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	o := outages{limiter: limit.New(nil, limit.Options{}, hits.New(0)), policy: descriptors.PolicyAllow, log: slog.New(slog.NewTextHandler(&log, nil))}
	o.limiter.Apply(config)
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	looks := func(servers string, n int) (told string) {
		log.Reset()
		for range n {
			o.look(now, strings.Fields(servers))
			now = now.Add(outageLook)
		}
		return log.String()
	}
	wants := func(promise, got string, want ...string) {
		t.Helper()
		for _, part := range want {
			if strings.Count(got, "\n") != 1 || !strings.Contains(got, part) {
				t.Errorf("%s: the log has %q, want one line with %q", promise, got, part)
			}
		}
		if len(want) == 0 && got != "" {
			t.Errorf("%s: the log has %q, want nothing", promise, got)
		}
	}
	wants("all is well", looks("", 3))
	wants("a pause of a look", looks("h:1", 1)+looks("", 40))
	wants("an outage", looks("h:1 h:2", 20), "level=WARN", `servers="h:1, h:2"`, `allow="requests of 3 rules pass, uncounted"`,
		`deny="requests of 1 rule are refused" remedy=`)
	wants("one that comes and goes is the same", looks("", 16)+looks("h:2", 3)+looks("", 16))
	wants("its end", looks("", 20), "level=WARN", "after=9.8s")
	wants("after it", looks("", 40))
	_ = looks("h:1", 2)
	log.Reset()
	o.end("weir ends")
	wants("the end of weir ends it", log.String(), `msg="weir ends" after=500ms`)
}
