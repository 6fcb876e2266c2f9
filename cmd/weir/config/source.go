package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/xds"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// The values of CONFIG_TYPE, in upper or lower case. An empty one means files.
const (
	typeFiles = "FILE"
	typeXDS   = "GRPC_XDS_SOTW"
)

// FromXDS reports whether the configuration comes from an xDS server instead of files.
func (s *Settings) FromXDS() bool { return strings.EqualFold(s.ConfigType, typeXDS) }

// checkSource returns an error if the source of the configuration cannot be used.
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

// XDS returns the configuration of the xDS client. Its error names the variables of the certificate and the invalid
// file. Later errors are logged.
func (s *Settings) XDS(log *slog.Logger) (c xds.Config, err error) {
	c = xds.Config{
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
			log.Warn("an entry has no effect", "variable", "CONFIG_GRPC_XDS_NODE_METADATA", "entry", i+1, "remedy", "write key=value")
		}
	}
	if !s.XDSServerTLS {
		return c, nil
	}
	san := s.XDSServerSAN
	if host, _, err := net.SplitHostPort(s.XDSServer); san == "" && err == nil && net.ParseIP(host) != nil {
		san = host
	}
	c.TLS, err = certs.Client(certs.Files{Cert: s.XDSClientCert, Key: s.XDSClientKey, CA: s.XDSServerCA, SAN: san}, log)
	if err != nil {
		err = fmt.Errorf("environment variables CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_CLIENT_TLS_KEY, "+
			"CONFIG_GRPC_XDS_SERVER_TLS_CACERT: %w", err)
	}
	return c, err
}

// ConfigFiles returns the directory of the descriptor files, and the prefix of their names; see file.Dir.Prefix.
func (s *Settings) ConfigFiles() (dir, prefix string) {
	dir = filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory)
	if s.FilesByPrefix {
		return dir, strings.ReplaceAll(s.RuntimeAppdirectory, "/", ".") + "."
	}
	return filepath.Join(dir, s.RuntimeAppdirectory), ""
}

// ReadFiles reads and checks only the variables of Files, for a tool that only reads descriptor files.
func ReadFiles(e Environment) (f Files, err error) {
	err = e.fill(&f)
	f.BackendType = e.backend()
	return f, err
}

// Options returns the options of descriptor files for a tool, which does not count.
func (f *Files) Options() yaml.Options {
	o := yaml.Options{Algorithm: f.Algorithm, Keys: descriptors.Keys{Format: f.KeyFormat}, Merge: f.MergeDomains,
		Lenient: f.Lenient}
	if f.BackendType == "memcache" {
		o.NoLogs = noSlidingLog
	}
	return o
}

// Rules returns the options of descriptor files for weir serve.
func (s *Settings) Rules() yaml.Options {
	o := s.Files.Options()
	o.Keys = s.Keys()
	return o
}

// Keys returns the configuration of the keys of counters. In memory no other program reads them.
func (s *Settings) Keys() descriptors.Keys {
	k := descriptors.Keys{Format: s.KeyFormat, Prefix: s.KeyPrefix}
	if s.BackendType == "memory" {
		k.Format = descriptors.KeysOfWeir
	}
	return k
}
