package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors/xds"
)

// What CONFIG_TYPE may be, in upper or lower case. An empty one means files.
const (
	typeFiles = "FILE"
	typeXDS   = "GRPC_XDS_SOTW"
)

// FromXDS reports whether the configuration comes from a server, instead of from files.
func (s *Settings) FromXDS() bool { return strings.EqualFold(s.ConfigType, typeXDS) }

// checkSource refuses a source of configuration that cannot be used.
func (s *Settings) checkSource() error {
	return cmp.Or(
		require(s.FromXDS() || s.ConfigType == "" || strings.EqualFold(s.ConfigType, typeFiles), "CONFIG_TYPE",
			s.ConfigType, "use "+typeFiles+" or "+typeXDS),
		notNegative("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", s.XDSRetry),
		notNegative("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", s.XDSInitialBackoff),
		notNegative("XDS_CLIENT_BACKOFF_MAX_INTERVAL", s.XDSMaxBackoff),
		notNegative("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", s.XDSMaxMessage),
	)
}

// XDS returns how the server of the configuration is reached. Its error names the variables of the certificate and the
// file at fault; what goes wrong later is logged.
func (s *Settings) XDS(log *slog.Logger) (xds.Config, error) {
	c := xds.Config{
		Server: s.XDSServer, Node: s.XDSNode, Metadata: make(map[string]string), Headers: s.XDSHeaders, MaxMessage: s.XDSMaxMessage,
		Backoff: xds.Backoff{Retry: s.XDSRetry, Initial: s.XDSInitialBackoff, Max: s.XDSMaxBackoff, Jitter: s.XDSBackoffFactor},
		Rules:   s.Rules(), Log: log,
	}
	if !s.XDSBackoffJitter {
		c.Backoff.Jitter = 0
	}
	for i, entry := range strings.Split(s.XDSNodeMetadata, ",") {
		key, value, found := strings.Cut(entry, "=")
		if found {
			c.Metadata[key] = value
		} else if entry != "" {
			log.Warn("an entry has no effect: write key=value", "variable", "CONFIG_GRPC_XDS_NODE_METADATA", "entry", i+1)
		}
	}
	if !s.XDSServerTLS {
		return c, nil
	}
	san := s.XDSServerSAN
	if host, _, err := net.SplitHostPort(s.XDSServer); san == "" && err == nil && net.ParseIP(host) != nil {
		san = host // which is no name to the TLS library
	}
	var err error
	c.TLS, err = certs.Client(certs.Files{Cert: s.XDSClientCert, Key: s.XDSClientKey, CA: s.XDSServerCA, SAN: san}, log)
	if err != nil {
		err = fmt.Errorf("environment variables CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_CLIENT_TLS_KEY, "+
			"CONFIG_GRPC_XDS_SERVER_TLS_CACERT: %w", err)
	}
	return c, err
}
