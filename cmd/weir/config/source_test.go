package config

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/descriptors/xds"
)

func TestXDSGetsEveryServerSetting(t *testing.T) {
	s, err := Read(Environment{
		"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "envoy-gateway:18001",
		"CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit", "CONFIG_GRPC_XDS_NODE_METADATA": "a=b,c=d=e,hunter2,",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "x-team:edge,x-b:c", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "1000",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "2s", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "9s", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "0.7",
		"MERGE_DOMAIN_CONFIG": "true",
	})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c, err := s.XDS(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server != "envoy-gateway:18001" || c.Node != "envoy-ratelimit" || c.MaxMessage != 1000 || c.TLS != nil || !c.Rules.Merge ||
		!maps.Equal(c.Metadata, map[string]string{"a": "b", "c": "d=e"}) ||
		!maps.Equal(c.Headers, map[string]string{"x-team": "edge", "x-b": "c"}) ||
		c.Backoff != (xds.Backoff{Retry: 3 * time.Second, Initial: 2 * time.Second, Max: 9 * time.Second, Jitter: 0.7}) {
		t.Errorf("the server is %+v, want what the environment says", c)
	}
	if got := strings.Count(log.String(), "an entry has no effect"); got != 1 || !strings.Contains(log.String(), "entry=3") ||
		strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log is %s, want a line about the third entry, which may be a secret", &log)
	}
	s.XDSBackoffJitter = false
	if c, _ = s.XDS(slog.New(slog.DiscardHandler)); c.Backoff.Jitter != 0 {
		t.Errorf("without jitter %v of a pause is left to chance, want none", c.Backoff.Jitter)
	}
}

func TestLimitServerIsAskedEncrypted(t *testing.T) {
	s, err := Read(Environment{"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_SERVER_TLS_SAN": "gateway",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": filepath.Join(t.TempDir(), "ca.crt")})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if _, err = s.XDS(log); err == nil || !strings.Contains(err.Error(), "CONFIG_GRPC_XDS_SERVER_TLS_CACERT") ||
		!strings.Contains(err.Error(), s.XDSServerCA) {
		t.Errorf("got %v, want an error that names the variable and the file", err)
	}
	if err := os.WriteFile(s.XDSServerCA, certstest.New(t, "mesh").PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := s.XDS(log); err != nil || c.TLS == nil || c.TLS.ServerName != "gateway" {
		t.Errorf("the server is %+v (%v), want TLS, and the name that its certificate must have", c, err)
	}
}
