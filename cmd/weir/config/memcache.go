package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"

	"github.com/weirproxy/weir/backend/memcached"
)

// noSlidingLog says why no limit can be a sliding_log with BACKEND_TYPE=memcache.
const noSlidingLog = "memcached cannot count a sliding_log, of which each check would read and write every instant: use " +
	"sliding_window, which is exact to its precision"

// maxConns bounds the connections to a server. Each sends all that waits for it at once, so fewer connections cost
// memcached less CPU.
const maxConns = 4

var recordName = regexp.MustCompile(`^_.+?\._.+?\..+$`)

// check returns an error that names the variable at fault.
func (m *Memcache) check() error {
	switch {
	case len(m.HostPort) == 0 && m.SRV == "":
		return fmt.Errorf("environment variable MEMCACHE_HOST_PORT or MEMCACHE_SRV must say where memcached is")
	case len(m.HostPort) > 0 && m.SRV != "":
		return fmt.Errorf("environment variables MEMCACHE_HOST_PORT and MEMCACHE_SRV both say where memcached is: set one of them")
	case m.SRV != "" && !recordName.MatchString(m.SRV):
		return fmt.Errorf("environment variable MEMCACHE_SRV: %q is no name of an SRV record, such as _memcache._tcp.example.com", m.SRV)
	}
	for _, name := range m.HostPort {
		host, port, err := net.SplitHostPort(name)
		if isPath := strings.Contains(name, "/"); !isPath && (err != nil || host == "" || port == "") {
			return fmt.Errorf("environment variable MEMCACHE_HOST_PORT: %q is no host:port, nor the path of a socket", name)
		}
	}
	return cmp.Or(
		notNegative("MEMCACHE_SRV_REFRESH", m.SRVRefresh),
		require(m.Timeout > 0, "MEMCACHE_TIMEOUT", m.Timeout, "use a time above 0, such as 500ms"),
	)
}

// MemcachedConfig returns how memcached is reached. Its error names the variables and the file at fault; what is wrong
// with files of TLS later is logged.
func (s *Settings) MemcachedConfig(log *slog.Logger) (c memcached.Config, err error) {
	m := &s.Memcache
	c = memcached.Config{Servers: m.HostPort, SRV: m.SRV, Refresh: m.SRVRefresh, Timeout: m.Timeout,
		Connections: min(max(1, m.MaxConns), maxConns), Keys: s.RatelimitKeys(), Log: log}
	if m.TLS {
		c.TLS, err = m.TLSFiles.connections("MEMCACHE", m.TLSServerName, log)
	}
	return c, err
}
