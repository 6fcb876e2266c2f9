package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestShadowModeIsLoggedAtTheStart(t *testing.T) {
	for _, on := range []string{"true", "false"} {
		var log bytes.Buffer
		s := &service{settings: settingsAs(t, "weir", map[string]string{"SHADOW_MODE": on}), log: slog.New(slog.NewTextHandler(&log, nil))}
		s.logStart(t.Context())
		const want = `level=WARN msg="nothing is refused: every rule is in shadow mode" variable=SHADOW_MODE`
		if strings.Contains(log.String(), want) != (on == "true") {
			t.Errorf("with SHADOW_MODE=%s weir logs\n%swant %s if it is true", on, &log, want)
		}
	}
}
