package topology

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Connections counts the connections to servers, including those to sentinels.
type Connections struct {
	Opened, Closed atomic.Uint64 // since the start
}

// Open returns how many are open now.
func (c *Connections) Open() uint64 {
	closed := c.Closed.Load() // read first, so that the difference is never negative
	return c.Opened.Load() - closed
}

// count counts a connection until it is closed, and checks the replies on it. If there is an error, it counts nothing.
func (c *Connections) count(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return conn, err
	}
	c.Opened.Add(1)
	counted := &countedConn{Conn: conn, counts: c}
	if system, ok := conn.(syscall.Conn); ok { // go-redis uses it to find out whether the other side has closed the connection
		return &countedSyscallConn{counted, system}, nil
	}
	return counted, nil
}

// countedConn is a connection that is counted as open until it is closed.
type countedConn struct {
	net.Conn
	counts  *Connections
	once    sync.Once
	replies replyScanner
}

// Read reads from the connection. It fails if a reply is damaged, and go-redis then closes the connection.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if damaged := c.replies.scan(p[:n]); damaged != nil {
		return 0, damaged
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
