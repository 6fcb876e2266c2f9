package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/server/stats"
)

func TestSourceFollowsFlagAndEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name, as, flag string
		environment    map[string]string
		want, warns    string
	}{
		{"the environment's directory", "weir", "", map[string]string{"RUNTIME_ROOT": "/r"},
			`/r/config, files "", which may be none: false`, ""},
		{"that of another name", "ratelimit", "", map[string]string{"RUNTIME_ROOT": "/r"},
			`/r, files "config.", which may be none: true`, ""},
		{"the flag's directory", "weir", "/d", nil, `/d, files "", which may be none: false`, ""},
		{"a server", "weir", "", map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "s:1"},
			"s:1, which sends changes", ""},
		{"the flag's directory beside a server", "ratelimit", "/d", map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW"},
			`/d, files "", which may be none: true`, "--config takes precedence over CONFIG_TYPE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log strings.Builder
			settings := settingsAs(t, tc.as, tc.environment)
			source, err := openSource(tc.flag, settings, stats.New("test"), slog.New(slog.NewTextHandler(&log, nil)))
			got, says := source.name+", which sends changes", "SIGHUP ignored"
			if dir, isDir := source.Source.(*file.Dir); isDir && dir.OnError != nil { // it counts rejected configurations
				got = fmt.Sprintf("%s, files %q, which may be none: %v", source.name, dir.Prefix, dir.MayBeEmpty)
				says = "reloading the configuration on SIGHUP"
			}
			if err != nil || got != tc.want {
				t.Errorf("the source is %s (%v), want %s", got, err, tc.want)
			}
			if warned := log.String(); (warned != "") != (tc.warns != "") || !strings.Contains(warned, tc.warns) {
				t.Errorf("the log is %q, want %q", warned, tc.warns)
			}
			if source.reload(); !strings.Contains(log.String(), says) {
				t.Errorf("after SIGHUP the log is %q, want %q", log.String(), says)
			}
		})
	}
}

func TestReloadIsLoggedInFewLines(t *testing.T) {
	load := func(domains int) *descriptors.Config {
		var all []*descriptors.Domain
		for i := range domains {
			all = append(all, &descriptors.Domain{Name: fmt.Sprint("d", i)})
		}
		return descriptors.NewConfig(descriptors.Keys{}, all, nil)
	}
	for _, tc := range []struct {
		before *descriptors.Config
		now    int
		lines  int
		last   string
	}{
		{nil, 40, 0, ""}, // the first is no reload
		{load(0), 0, 0, ""},
		{load(0), 10, 10, `change="d9: a new domain, rules: 0"`},
		{load(0), 40, 11, `change="and 30 more"`},
	} {
		var log strings.Builder
		logChanges(slog.New(slog.NewTextHandler(&log, nil)), tc.before, load(tc.now))
		if got := log.String(); strings.Count(got, "level=INFO msg=\"configuration changed\"") != tc.lines || !strings.HasSuffix(strings.TrimSpace(got), tc.last) {
			t.Errorf("a reload to %d domains is told as %q, want %d lines, the last with %s", tc.now, got, tc.lines, tc.last)
		}
	}
}
