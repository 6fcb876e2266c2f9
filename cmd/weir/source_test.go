package main

import (
	"log/slog"
	"strings"
	"testing"

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
			set, err := settingsAs(tc.as, tc.environment)
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			got, err := openSource(tc.flag, set, stats.New("test"), slog.New(slog.NewTextHandler(&log, nil)))
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
