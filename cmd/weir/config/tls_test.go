package config

import (
	"crypto/tls"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
)

func TestTheGRPCPortsTLSIsReadFromTheEnvironment(t *testing.T) {
	authority, dir := certstest.New(t, "mesh"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM})
	at := func(name string) string { return filepath.Join(dir, name) }
	full := Environment{"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": at("tls.crt"), "GRPC_SERVER_TLS_KEY": at("tls.key"),
		"GRPC_CLIENT_TLS_CACERT": at("ca.crt"), "GRPC_CLIENT_TLS_SAN": "envoy"}
	for _, tc := range []struct {
		name, change string
		tls          bool
		refuses      string // the variable that weir refuses to start with
	}{
		{"all", "", true, ""},
		{"no client CA", "GRPC_CLIENT_TLS_CACERT= GRPC_CLIENT_TLS_SAN=", true, ""},
		{"a client's name without a CA", "GRPC_CLIENT_TLS_CACERT=", true, "GRPC_CLIENT_TLS_SAN"},
		{"a client CA without TLS", "GRPC_SERVER_USE_TLS=false", false, "GRPC_CLIENT_TLS_CACERT"},
		{"a certificate without TLS", "GRPC_SERVER_USE_TLS=false GRPC_CLIENT_TLS_CACERT= GRPC_CLIENT_TLS_SAN=", false, ""},
		{"no key", "GRPC_SERVER_TLS_KEY=", false, "GRPC_SERVER_TLS_KEY"},
		{"a key that is away", "GRPC_SERVER_TLS_KEY=" + at("away.key"), false,
			"GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT: open " + at("away.key")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := maps.Clone(full)
			maps.Copy(e, env(tc.change))
			s, err := Read(e)
			var config *tls.Config
			if err == nil {
				config, err = s.GRPCTLS(slog.New(slog.DiscardHandler))
			}
			if tc.refuses != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refuses) {
					t.Fatalf("got %v, want an error that names %s", err, tc.refuses)
				}
			} else if err != nil || (config != nil) != tc.tls {
				t.Fatalf("got TLS %t, %v; want %t", config != nil, err, tc.tls)
			}
		})
	}
}
