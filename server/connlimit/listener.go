// Package connlimit limits what the clients of a port can use up: connections, concurrent answers, and lines in the log.
package connlimit

import (
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
)

// Reason is why a connection was refused, as a label of metrics.
type Reason string

// The reasons.
const (
	ReasonTotal  Reason = "max_connections"
	ReasonClient Reason = "max_connections_per_client"
)

// Limits are the most open connections of a port, in total and from one client; 0 means no limit. A client is an IPv4
// address or the first 64 bits of an IPv6 address. Connections to a Unix socket have no client.
type Limits struct{ Total, PerClient int }

// Listener closes new connections beyond its limits and leaves open ones alone. It may be used concurrently.
type Listener struct {
	net.Listener
	Port    string // as metrics and the log name it
	limits  Limits
	log     *slog.Logger
	refused map[Reason]*refusal

	mu      sync.Mutex // guards the fields below
	open    int
	clients map[netip.Prefix]int // open connections
}

// refusal counts and logs the connections that were refused for a reason.
type refusal struct {
	count   atomic.Uint64
	sampler LogSampler
}

// New makes a listener that limits the connections of lis.
func New(lis net.Listener, port string, limits Limits, log *slog.Logger) *Listener {
	return &Listener{Listener: lis, Port: port, limits: limits, log: log, clients: make(map[netip.Prefix]int),
		refused: map[Reason]*refusal{ReasonTotal: new(refusal), ReasonClient: new(refusal)}}
}

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Refused returns how many connections were refused for a reason.
func (l *Listener) Refused(r Reason) uint64 { return l.refused[r].count.Load() }

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(raw.RemoteAddr())
		reason := l.admit(client)
		if reason == "" {
			return &conn{Conn: raw, release: sync.OnceFunc(func() { l.release(client) })}, nil
		}
		_ = raw.Close() // nothing was written
		refusal := l.refused[reason]
		refusal.count.Add(1)
		refusal.sampler.Log(l.log, slog.LevelWarn, "connection refused", "port", l.Port, "client", raw.RemoteAddr().String(),
			"reason", string(reason), "max_connections", l.limits.Total, "max_connections_per_client", l.limits.PerClient)
	}
}

// admit counts a connection of a client, or returns the reason to refuse it.
func (l *Listener) admit(client netip.Prefix) Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.limits.PerClient > 0 && client.IsValid() && l.clients[client] >= l.limits.PerClient:
		return ReasonClient
	case l.limits.Total > 0 && l.open >= l.limits.Total:
		return ReasonTotal
	}
	l.open++
	l.clients[client]++
	return ""
}

func (l *Listener) release(client netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
}

// clientOf returns the client of an address, or the zero value if it has none.
func clientOf(a net.Addr) netip.Prefix {
	tcp, isTCP := a.(*net.TCPAddr)
	if !isTCP {
		return netip.Prefix{}
	}
	ip, bits := tcp.AddrPort().Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	client, _ := ip.WithZone("").Prefix(bits) // bits fit the address
	return client
}

// conn is a connection that is counted until it is closed.
type conn struct {
	net.Conn
	release func()
	more    bool // the last read filled its buffer, so the client may have sent more; only Read uses it
}

// Read yields to other goroutines first if the client may have sent more. Otherwise a client that always sends more would
// hold a processor for ten milliseconds at a time, and a hundred such clients for a second.
func (c *conn) Read(b []byte) (int, error) {
	if c.more {
		runtime.Gosched()
	}
	n, err := c.Conn.Read(b)
	c.more = n == len(b)
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
