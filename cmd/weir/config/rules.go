package config

import (
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// ConfigFiles returns the directory of the descriptor files, and the prefix of those that are read: of their paths below
// it, with dots for slashes.
func (s *Settings) ConfigFiles() (dir, prefix string) {
	dir = filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory)
	if s.FilesByPrefix {
		return dir, strings.ReplaceAll(s.RuntimeAppdirectory, "/", ".") + "."
	}
	return filepath.Join(dir, s.RuntimeAppdirectory), ""
}

// ReadFiles reads the variables of Files alone, for a tool that only reads descriptor files. It judges no others.
func ReadFiles(e Environment) (f Files, err error) {
	err = e.fill(&f)
	f.BackendType = e.backend()
	return f, err
}

// Options returns how a tool, which counts nothing, reads descriptor files.
func (f *Files) Options() yaml.Options {
	o := yaml.Options{Algorithm: f.Algorithm, Keys: descriptors.Keys{Format: f.KeyFormat}, Merge: f.MergeDomains,
		Lenient: f.Lenient}
	if f.BackendType == "memcache" {
		o.NoLogs = noSlidingLog
	}
	return o
}

// Rules returns how weir serve reads descriptor files.
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

// Limits returns how requests are decided, whatever their rules.
func (s *Settings) Limits() limit.Options {
	return limit.Options{
		Algorithm: s.Algorithm, Shadow: s.ShadowMode, Quota: s.QuotaMode, SpareOthers: s.SpareOthers,
		NearRatio: s.NearRatio, Leases: s.Leasing(),
	}
}

// Leasing reports whether this process leases hits of busy keys. It takes one Redis: neither two of them nor memcached
// grant leases.
func (s *Settings) Leasing() bool {
	return s.Leases && s.BackendType == "redis" && !s.BothRedis.UsePerSecond
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

// checkHeader refuses the name of a header that no HTTP message can hold.
func checkHeader(variable, name string) error {
	return require(name == "" || httpguts.ValidHeaderFieldName(name), variable, name, "use the name of an HTTP header")
}
