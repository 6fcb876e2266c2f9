package topology

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Connections counts connections to servers, those included to sentinels.
type Connections struct {
	Opened, Closed atomic.Uint64 // since the start
}

// Open returns how many are open now.
func (c *Connections) Open() uint64 {
	closed := c.Closed.Load() // read first, so that the difference is never negative
	return c.Opened.Load() - closed
}

// count counts a connection, if it was made, until it is closed, and has its replies followed.
func (c *Connections) count(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return conn, err
	}
	c.Opened.Add(1)
	counted := &countedConn{Conn: conn, counts: c}
	if system, ok := conn.(syscall.Conn); ok { // by which go-redis finds out whether it was closed by the other side
		return &countedSyscallConn{counted, system}, nil
	}
	return counted, nil
}

// countedConn is a connection that is counted as open until it is closed, or damaged.
type countedConn struct {
	net.Conn
	counts  *Connections
	once    sync.Once
	replies replies
}

// Read reads what comes, unless it is damaged: then the connection ends.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if damaged := c.replies.scan(p[:n]); damaged != nil {
		return 0, damaged // go-redis closes what it cannot read
	}
	return n, err
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.counts.Closed.Add(1) })
	return c.Conn.Close()
}

// countedSyscallConn is a countedConn with a file descriptor.
type countedSyscallConn struct {
	*countedConn
	syscall.Conn
}
