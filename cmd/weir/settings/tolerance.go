package settings

import (
	"math"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// tolerate turns values that envoyproxy/ratelimit starts with, and that weir would refuse, into what they come to there.
// WarnOfIdle tells of those that ask for something.
func (s *Settings) tolerate() {
	if !isStatsdProtocol(s.StatsdProtocol) {
		s.StatsdProtocol = "tcp"
	}
	s.NearRatio = nearRatio(s.NearRatio)
	for _, header := range []*string{&s.LimitHeader, &s.RemainingHeader, &s.ResetHeader,
		&s.RequestLimitHeader, &s.RequestRemainingHeader, &s.RequestResetHeader} {
		if checkHeader("", *header) != nil {
			*header = ""
		}
	}
	both := &s.BothRedis
	for _, d := range []*time.Duration{&s.MaxConnectionAge, &s.MaxConnectionAgeGrace, &both.StartupInitialInterval,
		&both.StartupMaxInterval, &both.StartupMaxElapsedTime, &s.XDSRetry, &s.XDSFirstPause, &s.XDSLongestPause} {
		*d = max(*d, 0)
	}
	for _, age := range []*time.Duration{&s.MaxConnectionAge, &s.MaxConnectionAgeGrace} {
		if *age > 0 { // 0 is no bound
			*age = max(*age, shortestAge)
		}
	}
	s.ExpireJitter, s.LocalCacheSize = max(s.ExpireJitter, 0), max(s.LocalCacheSize, 0)
	s.XDSMaxMessage = max(s.XDSMaxMessage, 0)
	s.Redis.tolerate()
	s.PerSecond.tolerate()
	if !s.tlsToRedis() { // nobody reads the files there
		both.TLSCacert, both.TLSClientCert, both.TLSClientKey = "", "", ""
	}
	both.TLSClientCert, both.TLSClientKey = bothOrNone(both.TLSClientCert, both.TLSClientKey)
	s.XDSClientCert, s.XDSClientKey = bothOrNone(s.XDSClientCert, s.XDSClientKey)
}

// bothOrNone returns a certificate and its key if both are there.
func bothOrNone(cert, key string) (string, string) {
	if cert == "" || key == "" {
		return "", ""
	}
	return cert, key
}

func isStatsdProtocol(name string) bool {
	return slices.Contains([]string{"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6"}, strings.ToLower(name))
}

// nearRatio returns the nearest ratio that means something. 0 stands for the default elsewhere: hence a ratio that makes
// every hit a near one.
func nearRatio(ratio float32) float32 {
	if math.IsNaN(float64(ratio)) {
		return 1
	}
	return min(max(ratio, math.SmallestNonzeroFloat32), 1)
}

func (s *Redis) tolerate() {
	s.Timeout, s.PipelineWindow = max(s.Timeout, 0), max(s.PipelineWindow, 0)
	s.ClusterPipelineParallelism = max(s.ClusterPipelineParallelism, 0)
	s.PoolOnEmptyBehavior = "WAIT"
	switch {
	case s.Type != topology.Single:
		s.SocketType = "" // which is for a single server alone
	case s.SocketType == "tcp4", s.SocketType == "tcp6":
		s.SocketType = "tcp"
	}
	if s.URLFile != "" {
		return
	}
	auth, items := &s.Auth, []string{s.URL}
	if s.Type != topology.Single {
		items = strings.Split(s.URL, ",")
	}
	if s.Type == topology.Sentinel {
		auth = &s.SentinelAuth
	}
	for i := range items {
		items[i], *auth = readAsThere(items[i], *auth)
	}
	s.URL = strings.Join(items, ",")
}

// urlParameters are those that a URL of Redis may have.
var urlParameters = []string{"username", "password", "db"}

// readAsThere returns a URL of Redis without the parameters that nobody reads, and without credentials if auth has some:
// there, a variable goes before the URL. What the variable lacks is taken from the URL.
func readAsThere(url, auth string) (string, string) {
	u, err := neturl.Parse(url)
	if err != nil || u.Scheme != "redis" {
		return url, auth
	}
	parameters := u.Query()
	kept := neturl.Values{}
	for _, name := range urlParameters {
		if parameters.Has(name) {
			kept.Set(name, parameters.Get(name))
		}
	}
	if auth != "" {
		user := u.User.Username()
		if user == "" {
			user = parameters.Get("username")
		}
		if user != "" && !strings.Contains(auth, ":") {
			auth = user + ":" + auth
		}
		u.User = nil
		kept.Del("username")
		kept.Del("password")
	}
	u.RawQuery = kept.Encode()
	return u.String(), auth
}

// hasOtherParameters reports whether one of the servers that a variable names has a parameter that is not read.
func hasOtherParameters(urls string) bool {
	for item := range strings.SplitSeq(urls, ",") {
		if u, err := neturl.Parse(item); err == nil && u.Scheme == "redis" {
			for name := range u.Query() {
				if !slices.Contains(urlParameters, name) {
					return true
				}
			}
		}
	}
	return false
}
