package settings

import (
	"net"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// Server returns where weir listens, and how it drains.
func (s *Settings) Server() server.Config {
	grpc := address(s.GRPCHost, s.GRPCPort)
	if s.GRPCUnix != "" {
		grpc = "unix:" + s.GRPCUnix // instead of the port
	}
	return server.Config{
		GRPCAddress: grpc, HTTPAddress: address(s.Host, s.Port), DebugAddress: address(s.DebugHost, s.DebugPort),
		DrainDelay: s.DrainDelay, DrainTimeout: s.DrainTimeout,
		MaxConnectionAge: s.MaxConnectionAge, MaxConnectionAgeGrace: s.MaxConnectionAgeGrace,
		Profiles: s.Profiles,
	}
}

// address joins a host, in brackets or not, and a port.
func address(host string, port uint16) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
}

// Guard returns who may change counters.
func (s *Settings) Guard() admin.Guard {
	return admin.Guard{TokenFile: s.TokenFile, Host: s.DebugHost}
}

// Answers returns what answers hold beside the verdict.
func (s *Settings) Answers() rls.Options {
	return rls.Options{
		Headers: rls.Headers{
			Enabled: s.LimitHeaders, Limit: s.LimitHeader, Remaining: s.RemainingHeader, Reset: s.ResetHeader,
			RetryAfter: s.RetryAfter,
		},
		DynamicMetadata: s.DynamicMetadata,
	}
}

// Rules returns how descriptor files are read.
func (s *Settings) Rules() yaml.Options {
	return yaml.Options{Algorithm: s.Algorithm, KeyPrefix: s.KeyPrefix, Merge: s.MergeDomains}
}

// Limits returns what holds for all requests.
func (s *Settings) Limits() limit.Options {
	return limit.Options{
		Algorithm: s.Algorithm, Shadow: s.ShadowMode, Quota: s.QuotaMode, Spare: s.Spare, NearRatio: s.NearRatio,
	}
}

// checkHeader refuses the name of a header that no HTTP message can hold.
func checkHeader(variable, name string) error {
	const signs = "-_.!#$%&'*+^`|~"
	wrong := strings.ContainsFunc(name, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		return !letter && (c < '0' || c > '9') && !strings.ContainsRune(signs, c)
	})
	return require(!wrong, variable, name, "the name of a header has letters, digits and "+signs+" only")
}
