package redistest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
)

// FaultProxy stands between clients and one Redis and breaks their connections in chosen ways. Without a fault it
// changes nothing. Faults are switched while connections are open and hold for all of them, until Heal.
//
// It follows Redis's protocol, in which requests are arrays of strings, to tell them; or memcached's, of which
// it takes each write for a request. It is no library
// because toxiproxy's faults see bytes and times, not requests: they cannot wait until Redis has executed the next
// EVALSHA and then swallow that reply.
type FaultProxy struct {
	Addr string // host:port, where clients connect

	done sync.WaitGroup // all goroutines

	mu       sync.Mutex // guards all below
	target   string     // host:port, or the path of a unix socket
	listener net.Listener
	closed   bool
	links    map[*link]struct{}
	faults   faults
	counts   Counts
}

// Counts are what has gone through a proxy since it began.
type Counts struct {
	Connections int // that were accepted
	Open        int // that are open now
}

// Proxy starts a proxy to a Redis at host:port or at the path of a unix socket.
func Proxy(t testing.TB, target string) *FaultProxy {
	t.Helper()
	return ProxyAt(t, "127.0.0.1:0", target)
}

// ProxyAt is Proxy with the host:port where clients connect.
func ProxyAt(t testing.TB, addr, target string) *FaultProxy {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultProxy{Addr: l.Addr().String(), target: target, listener: l, links: make(map[*link]struct{})}
	p.done.Go(func() { p.accept(l) })
	t.Cleanup(p.Close)
	return p
}

// accept takes connections until the listener is closed.
func (p *FaultProxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // it was closed: it has no other reason to fail on a loopback
		}
		p.done.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// serve connects a client to Redis until one of them goes.
func (p *FaultProxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	network, target := "tcp", p.target
	p.mu.Unlock()
	if strings.HasPrefix(target, "/") {
		network = "unix"
	}
	redis, err := net.DialTimeout(network, target, patience)
	if err != nil {
		reset(client) // as near to a refusal as it gets after the connection was accepted
		return
	}
	l := &link{proxy: p, client: client, redis: redis, gone: make(chan struct{})}
	p.mu.Lock()
	p.counts.Connections++
	p.links[l] = struct{}{}
	if p.closed {
		l.end(reset)
	}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// Counts gives the counts until now.
func (p *FaultProxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	counts.Open = len(p.links)
	return counts
}

// Refuse closes the listener: new connections are refused, open ones stay.
func (p *FaultProxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // it was open, and nothing can be done if that fails
		p.listener = nil
	}
}

// Accept ends Refuse. It fails the test if somebody else took the port meanwhile.
func (p *FaultProxy) Accept(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	accepts := p.listener != nil
	p.mu.Unlock()
	if accepts {
		return
	}
	var l net.Listener
	mustAwait(t, "the proxy has its port again", func(context.Context) (err error) {
		l, err = net.Listen("tcp", p.Addr)
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
	p.done.Go(func() { p.accept(l) })
}

// Redirect sends connections that come from now on to another Redis, as an address does that is given to another
// server. Open ones stay where they are; ResetAll ends them.
func (p *FaultProxy) Redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// ResetAll ends all open connections with a TCP reset.
func (p *FaultProxy) ResetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end(reset)
	}
}

// Close ends everything.
func (p *FaultProxy) Close() {
	p.Refuse()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ResetAll()
	p.done.Wait()
}

// reset closes a connection so that its peer gets ECONNRESET.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it fails only on a connection that is closed
	}
	hangUp(c)
}

// hangUp closes a connection so that its peer reads its end.
func hangUp(c net.Conn) { _ = c.Close() } // there is nothing more to lose
