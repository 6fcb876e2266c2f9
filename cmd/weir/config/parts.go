package config

import (
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

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
