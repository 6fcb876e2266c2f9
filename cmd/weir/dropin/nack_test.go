package dropin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	configpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// A snapshot cache sends again at once what was just refused.
func TestARefusedSnapshotIsAskedForAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	awaitRoomInHour()
	redis := redistest.Single(t)
	control := startControlPlane(t, "127.0.0.1:0", "weir", nil)
	r := startReplica(t, weirBinary, nil, "REDIS_URL="+redis.Addr, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+control.addr,
		"CONFIG_GRPC_XDS_NODE_ID=weir")
	rule := func(requests uint32) *configpb.RateLimitDescriptor {
		return chain(requests, configpb.RateLimitUnit_HOUR, "plan", "basic")
	}
	wantRules := func(promise string, lines ...string) {
		t.Helper()
		eventually(t, promise, func() error {
			text, err := get(r.debug + "/rlconfig")
			if want := strings.Join(lines, "\n"); err == nil && !sameLines(text, lines) {
				err = fmt.Errorf("/rlconfig prints\n%s\nwant\n%s", text, want)
			}
			return errors.Join(err, r.Ended())
		})
	}
	line := func(domain string, requests int) string {
		return fmt.Sprintf("%s.plan_basic: unit=HOUR requests_per_unit=%d, shadow_mode: false, quota_mode: false", domain, requests)
	}
	good := control.set(t, limits("bank", rule(1)), limits("shop", rule(1)))
	wantRules("the first snapshot holds", line("bank", 1), line("shop", 1))
	eventually(t, "it is accepted", func() error { return control.accepted(good) })

	before := len(control.since(0))
	wrong := limits("bank", &configpb.RateLimitDescriptor{Key: "plan", Value: "basic", RateLimit: &configpb.RateLimitPolicy{RequestsPerUnit: 9}})
	control.set(t, wrong, limits("shop", rule(2)))
	wantRules("the good domain applies, the bad one keeps its last good form", line("bank", 1), line("shop", 2))
	time.Sleep(form(6*time.Second, time.Minute))
	asked := control.since(before)
	if len(asked) == 0 {
		t.Fatal("nothing was asked for: a snapshot with an error is to be refused")
	}
	span := asked[len(asked)-1].at.Sub(asked[0].at)
	t.Logf("%d requests in %v, the first %q", len(asked), span.Round(time.Millisecond), asked[0].refused)
	for _, r := range asked {
		if !strings.Contains(r.refused, "bank") || r.version != good {
			t.Errorf("it is asked for with version %q and %q, want the last good version %s, and an error that names the domain bank",
				r.version, r.refused, good)
			break
		}
	}
	if most := 2 + int(span/time.Second); len(asked) > most {
		t.Errorf("a refused snapshot was asked for %d times in %v, want at most once a second", len(asked), span)
	}

	mended := control.set(t, limits("bank", rule(3)), limits("shop", rule(3)))
	wantRules("the mended snapshot holds", line("bank", 3), line("shop", 3))
	eventually(t, "it is accepted", func() error { return control.accepted(mended) })
}

// sameLines reports whether a text has just these lines, in any order.
func sameLines(text string, want []string) bool {
	for _, line := range want {
		if !containsLine(text, line+"\n") {
			return false
		}
	}
	return strings.Count(text, "\n") == len(want)
}
