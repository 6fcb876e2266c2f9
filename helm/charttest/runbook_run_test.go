package charttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
)

const (
	rulesOfShop = "domain: shop\nrefund_on_deny: true\ndescriptors:\n" +
		"  - {key: user, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n" +
		"  - {key: strict, on_backend_failure: error, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n"
	brokenRules = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {requests_per_unit: 1, unit: fortnight}}\n"
)

// A situation is one in which alerts fire.
type situation struct {
	name   string
	alerts []string
	cause  func()
	mend   func() // before what the runbook shows for afterwards
}

// Each alert has a section in the runbook, whose every command runs, in the situation of its alert as far as one can be
// made here, and prints what the section says.
func TestEveryCommandOfTheRunbookDoesWhatItSays(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	counting := loader.MergeMaps(watched(redis.Addr), map[string]any{
		"descriptors": map[string]any{"shop.yaml": rulesOfShop},
		"admin":       map[string]any{"token": map[string]any{"existingSecret": "weir-admin"}},
		"history":     map[string]any{"enabled": true, "flushInterval": "1s"},
	})
	inMemory := map[string]any{"memory": map[string]any{"maxKeys": 256}, "history": map[string]any{"flushInterval": "1s"},
		"monitoring": map[string]any{"rules": map[string]any{"enabled": true}}}
	nothing := func() {}

	w := startRendered(t, render(t, "weir", counting))
	covered := w.wantRunbook(t, redis.Addr, []situation{
		{"calm", []string{"WeirDown", "WeirPanic", "WeirSlow", "WeirRedisSlow", "WeirOverAdmission", "WeirRefundsFail",
			"WeirHistoryLoses", "WeirHistoryForgets", "WeirConfigDiffers"}, nothing, nothing},
		{"asked for an unknown domain", []string{"WeirUnknownDomain"}, func() { w.askDomain(t, "shopp", "user", "ann") }, nothing},
		{"with a broken file", []string{"WeirConfigRejected"},
			func() { w.configure(t, brokenRules) },
			func() { w.configure(t, rulesOfShop) }},
		{"without Redis", []string{"WeirErrors", "WeirRedisShardDown", "WeirDegraded", "WeirHistoryWaits"},
			redis.Kill, func() { redis.Restart(t) }},
		{"with a full Redis", []string{"WeirRedisTakesNoWrites"}, func() { hasRoom(t, redis, "1") }, nothing},
	})
	full := startRendered(t, render(t, "weir", inMemory))
	covered = append(covered, full.wantRunbook(t, "", []situation{{"with a full memory", []string{"WeirMemoryFull"}, func() {
		for i := range 1000 {
			full.ask(t, "user", fmt.Sprint("user", i))
		}
	}, nothing}})...)

	server := memcachedtest.Start(t)
	inMemcached := map[string]any{"memcached": map[string]any{"addresses": []any{server.Addr}},
		"monitoring": map[string]any{"rules": map[string]any{"enabled": true}}}
	counted := startRendered(t, render(t, "weir", inMemcached))
	covered = append(covered, counted.wantRunbook(t, "", []situation{{"with memcached", []string{"WeirMemcachedEvicts"}, nothing, nothing},
		{"without memcached", []string{"WeirMemcachedDown"}, server.Kill, server.Restart}})...)

	for name := range readRunbook(t) { // which has a section for each alert: TestAlertsSayWhatToDo
		if strings.HasPrefix(name, "Weir") && !slices.Contains(covered, name) {
			t.Errorf("the runbook tells of %s, which is in no situation that this test makes", name)
		}
	}
}

// wantRunbook brings a weir into situations, one after the other, and runs what the runbook shows for their alerts.
func (w *weir) wantRunbook(t *testing.T, redis string, situations []situation) (alerts []string) {
	t.Helper()
	sections := readRunbook(t)
	s := newShell(t, w, redis)
	load := func() {
		w.ask(t, "user", "ann")
		w.ask(t, "strict", "ann")
	}
	for _, in := range situations {
		load()
		in.cause()
		for _, afterwards := range []bool{false, true} {
			for _, alert := range in.alerts {
				of := s
				if alert == "WeirErrors" {
					of = s.with("DESCRIPTOR=strict=ann")
				}
				of.wantAll(t, alert, sections[alert].commands, afterwards, load)
			}
			if !afterwards {
				in.mend()
			}
		}
		for _, alert := range in.alerts {
			if len(sections[alert].commands) == 0 {
				t.Errorf("the runbook has no section %s with a command in it", alert)
			}
		}
		alerts = append(alerts, in.alerts...)
	}
	return alerts
}
