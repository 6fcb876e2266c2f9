package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// Server returns where weir listens, and how it drains.
func (s *Settings) Server() server.Config {
	grpc := address(s.GRPCHost, s.GRPCPort)
	if s.GRPCUnix != "" {
		grpc = "unix:" + s.GRPCUnix // instead of the port
	}
	c := s.Ports
	c.StartLevel = s.StartLevel
	c.GRPCAddress, c.HTTPAddress, c.AdminAddress = grpc, address(s.Host, s.Port), address(s.DebugHost, s.DebugPort)
	c.DrainDelay, c.DrainTimeout, c.Connections = s.DrainDelay, s.DrainTimeout, s.MaxConnections
	c.MaxConnectionAge, c.MaxConnectionAgeGrace, c.Profiles = s.MaxConnectionAge, s.MaxConnectionAgeGrace, s.Profiles
	switch {
	case s.ServerTLS && s.ClientCA != "":
		c.NoJSON = "/json is not served, as it would answer without the client certificate that GRPC_CLIENT_TLS_CACERT asks for."
	case !s.JSON:
		c.NoJSON = "/json is not served, as JSON_ENABLED is false."
	}
	return c
}

// Health returns what makes weir healthy.
func (s *Settings) Health() server.HealthRules {
	rules := s.HealthRules
	rules.NeedsDomains = s.NeedsDomains
	return rules
}

// address joins a host, in brackets or not, and a port.
func address(host string, port uint16) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
}

// Guard returns who may ask the admin port what. Log hears of refused tokens.
func (s *Settings) Guard(log *slog.Logger) *admin.Guard {
	g := &admin.Guard{TokenFile: s.TokenFile, ReadFile: s.ReadTokenFile, Host: s.DebugHost, Log: log}
	for _, host := range s.AdminHosts {
		g.Hosts = append(g.Hosts, strings.Trim(strings.TrimSpace(host), "[]"))
	}
	return g
}

// Answers returns what answers hold beside the verdict.
func (s *Settings) Answers() rls.Options {
	o := rls.Options{DynamicMetadata: s.DynamicMetadata, DeniedMetadata: s.DenialMetadata,
		Headers: rls.Headers{RetryAfter: s.RetryAfter}}
	if s.LimitHeaders {
		o.Headers.Answer = rls.Names{Limit: s.LimitHeader, Remaining: s.RemainingHeader, Reset: s.ResetHeader}
	}
	if s.RequestHeadersOn {
		o.Headers.Request = rls.Names{
			Limit: s.RequestLimitHeader, Remaining: s.RequestRemainingHeader, Reset: s.RequestResetHeader}
	}
	return o
}

// ReadFiles reads only these variables, for a tool that does nothing else.
func ReadFiles(e Environment) (f Files, err error) {
	err = e.fill(&f)
	return f, err
}

// Options returns how descriptor files are read by a tool, which counts nothing.
func (f *Files) Options() yaml.Options {
	o := yaml.Options{Algorithm: f.Algorithm, Keys: descriptors.Keys{Format: f.KeyFormat}, Merge: f.MergeDomains,
		Lenient: f.Lenient}
	if f.BackendType == "memcache" {
		o.NoLogs = noLogs
	}
	return o
}

// Rules returns how descriptor files are read by a server.
func (s *Settings) Rules() yaml.Options {
	o := s.Files.Options()
	o.Keys = s.Keys()
	return o
}

// Keys returns how the keys of counters are written. In memory nobody else reads them.
func (s *Settings) Keys() descriptors.Keys {
	k := descriptors.Keys{Format: s.KeyFormat, Prefix: s.KeyPrefix}
	if s.BackendType == "memory" {
		k.Format = descriptors.KeysOfWeir
	}
	return k
}

// Limits returns what holds for all requests.
func (s *Settings) Limits() limit.Options {
	return limit.Options{
		Algorithm: s.Algorithm, Shadow: s.ShadowMode, Quota: s.QuotaMode, SpareOthers: s.SpareOthers,
		NearRatio: s.NearRatio, Leases: s.Leasing(),
	}
}

// Leasing reports whether Redis grants hits of busy keys beforehand. Where two of them count, or memcached does, none are.
func (s *Settings) Leasing() bool {
	return s.Leases && s.BackendType == "redis" && !s.BothRedis.Persecond
}

// checkAge refuses ages of connections so short that the gRPC library panics, as a tenth of them rounds to 0.
func checkAge(variable string, age time.Duration) error {
	return require(age == 0 || age >= time.Millisecond, variable, age, "use 0 for no bound, or at least 1ms")
}

// checkHeader refuses the name of a header that no HTTP message can hold.
func checkHeader(variable, name string) error {
	return require(name == "" || httpguts.ValidHeaderFieldName(name), variable, name, "use the name of an HTTP header")
}

// DenialLog returns the logger of denials.
func (s *Settings) DenialLog(r *denials.Recorder, log *slog.Logger) *denials.Log {
	return &denials.Log{Recorder: r, Interval: s.DenialLogEvery, Values: s.DenialLogValues, To: log}
}

// AdminAddress returns HOST:PORT where this machine reaches the admin port of a weir serve that has the same environment:
// 127.0.0.1:6070 unless DEBUG_HOST or DEBUG_PORT say otherwise. Where it listens everywhere, that is the loopback address.
func AdminAddress() string { return reachable("DEBUG_HOST", "DEBUG_PORT", "6070") }

// GRPCAddress returns where this machine reaches the gRPC port likewise: 127.0.0.1:8081 unless GRPC_HOST or GRPC_PORT say
// otherwise, or unix: and the path of GRPC_UDS.
func GRPCAddress() string {
	if path := os.Getenv("GRPC_UDS"); path != "" {
		return "unix:" + path
	}
	return reachable("GRPC_HOST", "GRPC_PORT", "8081")
}

// reachable returns the address that two variables name, on the loopback address where they name all. It is not checked.
func reachable(hostVariable, portVariable, usualPort string) string {
	host := strings.Trim(os.Getenv(hostVariable), "[]")
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, cmp.Or(os.Getenv(portVariable), usualPort))
}

// Logger returns a logger that writes as LOG_LEVEL and LOG_FORMAT say.
func (s *Settings) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel), ReplaceAttr: s.RenameLogs}
	if s.LogsJSON() {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// LogsJSON reports whether each line of the log is an object in JSON. It is right after an error of Read as well.
func (s *Settings) LogsJSON() bool { return strings.EqualFold(s.LogFormat, "json") }

type logLevel slog.Level

// EnvDecode reads a level by the names that envoyproxy/ratelimit has for it, in any case.
func (l *logLevel) EnvDecode(value string) error {
	level, known := map[string]slog.Level{
		"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"warning": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError, "panic": slog.LevelError,
	}[strings.ToLower(value)]
	if *l = logLevel(level); !known {
		return fmt.Errorf("%q is not a log level: use one of debug, info, warning, error", value)
	}
	return nil
}

// checkTLS refuses a gRPC port that is meant to be closed and would be open.
func (s *Settings) checkTLS() error {
	return cmp.Or(
		require(!s.ServerTLS || s.ServerCert != "" && s.ServerKey != "", "GRPC_SERVER_USE_TLS", s.ServerTLS,
			"GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY must name the files of the certificate and its key"),
		require(s.ServerTLS || s.ClientCA == "", "GRPC_CLIENT_TLS_CACERT", s.ClientCA,
			"clients are asked for a certificate only with GRPC_SERVER_USE_TLS=true"),
		require(s.ClientCA != "" || s.ClientSAN == "", "GRPC_CLIENT_TLS_SAN", s.ClientSAN,
			"clients are asked for a certificate only with GRPC_CLIENT_TLS_CACERT"),
	)
}

// GRPCTLS returns the TLS of the gRPC port, nil for none. Its error names the variables and the file at fault. Log hears
// of files that are wrong later.
func (s *Settings) GRPCTLS(log *slog.Logger) (*tls.Config, error) {
	if !s.ServerTLS {
		return nil, nil
	}
	config, err := certs.Server(certs.Files{Cert: s.ServerCert, Key: s.ServerKey, CA: s.ClientCA, SAN: s.ClientSAN}, log)
	if err != nil {
		err = fmt.Errorf("environment variables GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT: %w", err)
	}
	return config, err
}
