package settings

import (
	"crypto/tls"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
)

// grpcTLS reads an environment, and returns the gRPC port's TLS and the line about what has no effect.
func grpcTLS(t *testing.T, as Program, environment map[string]string) (*tls.Config, string, error) {
	t.Helper()
	for name, value := range environment {
		t.Setenv(name, value)
	}
	s, err := Read(as)
	if err != nil {
		return nil, "", err
	}
	var told strings.Builder
	log := slog.New(slog.NewTextHandler(&told, nil))
	config, err := s.GRPCTLS(log)
	var all []string
	for name, value := range environment {
		all = append(all, name+"="+value)
	}
	s.WarnOfIdle(all, log)
	return config, told.String(), err
}

func TestTheGRPCPortsTLSIsReadFromTheEnvironment(t *testing.T) {
	authority, dir := certstest.New(t, "mesh"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM})
	at := func(name string) string { return filepath.Join(dir, name) }
	full := map[string]string{"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": at("tls.crt"), "GRPC_SERVER_TLS_KEY": at("tls.key"),
		"GRPC_CLIENT_TLS_CACERT": at("ca.crt"), "GRPC_CLIENT_TLS_SAN": "envoy"}
	for _, tc := range []struct {
		name     string
		change   map[string]string
		tls      bool
		warns    []string // what has no effect, on one line
		refuses  string   // the variable that weir refuses to start with
		dropInTo bool     // as ratelimit it starts all the same
	}{
		{name: "all", tls: true},
		{name: "no client CA", change: map[string]string{"GRPC_CLIENT_TLS_CACERT": "", "GRPC_CLIENT_TLS_SAN": ""}, tls: true},
		{name: "a client's name without a CA", change: map[string]string{"GRPC_CLIENT_TLS_CACERT": ""},
			refuses: "GRPC_CLIENT_TLS_SAN", dropInTo: true, tls: true, warns: []string{"GRPC_CLIENT_TLS_SAN"}},
		{name: "a client CA without TLS", change: map[string]string{"GRPC_SERVER_USE_TLS": "false"},
			refuses: "GRPC_CLIENT_TLS_CACERT", dropInTo: true,
			warns: []string{"GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN"}},
		{name: "a certificate without TLS", change: map[string]string{"GRPC_SERVER_USE_TLS": "false", "GRPC_CLIENT_TLS_CACERT": "",
			"GRPC_CLIENT_TLS_SAN": ""}, warns: []string{"GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY"}},
		{name: "no key", change: map[string]string{"GRPC_SERVER_TLS_KEY": ""}, refuses: "GRPC_SERVER_TLS_KEY"},
		{name: "a key that is away", change: map[string]string{"GRPC_SERVER_TLS_KEY": at("away.key")},
			refuses: "GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT: open " + at("away.key")},
	} {
		for _, as := range []Program{"weir", dropIn} {
			t.Run(tc.name+" as "+string(as), func(t *testing.T) {
				environment := maps.Clone(full)
				maps.Copy(environment, tc.change)
				config, log, err := grpcTLS(t, as, environment)
				if tc.refuses != "" && (as != dropIn || !tc.dropInTo) {
					if err == nil || !strings.Contains(err.Error(), tc.refuses) {
						t.Fatalf("got %v, want an error that names %s", err, tc.refuses)
					}
					return
				}
				if err != nil || (config != nil) != tc.tls {
					t.Fatalf("got TLS %t, %v; want %t", config != nil, err, tc.tls)
				}
				if strings.Count(log, "level=WARN") != min(len(tc.warns), 1) || strings.Count(log, "GRPC_") < len(tc.warns) {
					t.Errorf("the log has %q, want a warning of %q", log, tc.warns)
				}
				for _, name := range tc.warns {
					if !strings.Contains(log, name) {
						t.Errorf("the log has %q, want a warning of %s", log, name)
					}
				}
			})
		}
	}
}
