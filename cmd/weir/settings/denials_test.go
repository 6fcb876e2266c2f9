package settings

import (
	"strings"
	"testing"
	"time"
)

func TestDenialsAreToldByWeirAndAsRatelimitOnlyOnRequest(t *testing.T) {
	check := func(as Program, every time.Duration, metadata bool) {
		t.Helper()
		s := mustRead(t, as)
		if l := s.DenialLog(nil, nil); l.Every != every || l.Values || s.Answers().DeniedMetadata != metadata {
			t.Errorf("as %s denials are logged every %v, with values: %t, and are in dynamic metadata: %t; want %v, false, %t",
				as, l.Every, l.Values, s.Answers().DeniedMetadata, every, metadata)
		}
	}
	check("weir", time.Minute, true)
	check(dropIn, 0, false)
	t.Setenv("DENIAL_LOG_INTERVAL", "5m")
	t.Setenv("DENIAL_METADATA", "true")
	check("weir", 5*time.Minute, true)
	check(dropIn, 5*time.Minute, true)
}

func TestALogOfDenialsThatNobodySeesIsTold(t *testing.T) {
	if got := idleOf(t, dropIn, "DENIAL_LOG_INTERVAL=1m"); !strings.Contains(got, "DENIAL_LOG_INTERVAL (LOG_LEVEL leaves out lines of level info)") {
		t.Errorf("as ratelimit, whose LOG_LEVEL is warning, it is told: %q", got)
	}
	if got := idleOf(t, "weir", "DENIAL_LOG_INTERVAL=0", "DENIAL_LOG_VALUES=true"); !strings.Contains(got, "DENIAL_LOG_VALUES (DENIAL_LOG_INTERVAL is 0)") {
		t.Errorf("told is %q", got)
	}
}
