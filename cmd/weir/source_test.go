package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/xds"
	"github.com/weirproxy/weir/server/stats"
)

func TestWhereTheConfigurationComesFrom(t *testing.T) {
	for _, tc := range []struct {
		name, as, flag string
		environment    map[string]string
		want, warns    string
		prefix         string
		mayBeEmpty     bool
	}{
		{"the environment's directory", "weir", "", map[string]string{"RUNTIME_ROOT": "/r"}, "/r/config", "", "", false},
		{"that of another name", "ratelimit", "", map[string]string{"RUNTIME_ROOT": "/r"}, "/r", "", "config.", true},
		{"the flag's directory", "weir", "/d", nil, "/d", "", "", false},
		{"a server", "weir", "", map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "s:1"}, "s:1", "", "", false},
		{"the flag's directory beside a server", "ratelimit", "/d", map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW"}, "/d",
			"--config goes before CONFIG_TYPE", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log strings.Builder
			got, err := openSource(tc.flag, settingsAs(t, tc.as, tc.environment), stats.New("test"), slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil || got.name != tc.want {
				t.Fatalf("the source is %s (%v), want %s", got.name, err, tc.want)
			}
			switch s := got.Source.(type) {
			case *xds.Source:
				if !strings.Contains(tc.want, ":") {
					t.Error("the source is a server, want a directory")
				}
			case *file.Dir:
				if strings.Contains(tc.want, ":") || s.Prefix != tc.prefix || s.MayBeEmpty != tc.mayBeEmpty || s.OnError == nil {
					t.Errorf("the source is %+v, want prefix %q, and that it may be empty: %v", s, tc.prefix, tc.mayBeEmpty)
				}
			}
			if warned := log.String(); (warned != "") != (tc.warns != "") || !strings.Contains(warned, tc.warns) {
				t.Errorf("the log is %q, want %q", warned, tc.warns)
			}
			got.reload()
			if idle := strings.Contains(log.String(), "SIGHUP changes nothing"); idle != strings.Contains(tc.want, ":") {
				t.Errorf("after SIGHUP the log is %q; want it to say that there is nothing to read where, and only where, a "+
					"server sends each change", log.String())
			}
		})
	}
}

func TestAReloadIsToldInSomeLines(t *testing.T) {
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
		logChanges(slog.New(slog.NewTextHandler(&log, nil)), new(xds.Pacer), tc.before, load(tc.now))
		if got := log.String(); strings.Count(got, "level=INFO msg=\"configuration changed\"") != tc.lines || !strings.HasSuffix(strings.TrimSpace(got), tc.last) {
			t.Errorf("a reload to %d domains is told as %q, want %d lines, the last with %s", tc.now, got, tc.lines, tc.last)
		}
	}
}

// A server whose state flaps sends thousands of configurations a second.
func TestReloadsWithoutEndDoNotFillTheLog(t *testing.T) {
	var log strings.Builder
	var reloads xds.Pacer
	one := descriptors.NewConfig(descriptors.Keys{}, []*descriptors.Domain{{Name: "d"}}, nil)
	synctest.Test(t, func(t *testing.T) {
		tell := func() {
			logChanges(slog.New(slog.NewTextHandler(&log, nil)), &reloads, descriptors.NewConfig(descriptors.Keys{}, nil, nil), one)
		}
		for range 1000 {
			tell()
		}
		time.Sleep(time.Minute)
		tell()
	})
	if lines := strings.Count(log.String(), "\n"); lines != maxReloads+1 || !strings.Contains(log.String(), "not_logged_before=990") {
		t.Errorf("1000 reloads, and one a minute later, are told in %d lines; want %d, the last with how many were left out:\n%s", lines,
			maxReloads+1, &log)
	}
}
