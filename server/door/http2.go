package door

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// MaxStreams is how many calls a client may have in flight on a connection. MaxHeaderList bounds the header list of
// each, in bytes as HTTP/2 counts them.
const (
	MaxStreams    = 256
	MaxHeaderList = 64 << 10
)

// How many bytes gRPC's server holds for a call until it is answered: measured, and rounded up.
const (
	perStream  = 16 << 10 // for a call whose request is not whole
	perWhole   = 4 << 10  // for a call whose request is whole
	perHeaders = 128      // for each byte of a header block beyond freeHeader: a field may be one byte
	freeHeader = 256
	maxHeaders = 256 << 10 // for the largest header block
	perFrame   = 128       // for each DATA frame
	perByte    = 4         // for each byte of a DATA frame: buffers have four sizes
)

const (
	maxSweeps = 10  // sweeps until a request must be whole
	maxSeen   = 512 // streams of a connection, above MaxStreams: the server refuses streams after they were seen

	// A client is hostile that resets manyResets requests before they are whole, in each of resetSweeps sweeps running.
	manyResets, resetSweeps = 100, 3

	maxPerRequest = 4 << 10 // after a read of more bytes for each request that it completed, smallRead bytes are read
)

// Frame types and flags of HTTP/2, and the size of what comes before a client's frames.
const (
	frameData, frameHeaders, frameReset, frameContinuation = 0, 1, 3, 9

	endStream, endHeaders = 1, 4

	prefaceSize = 24
)

// Watch returns the connection for a gRPC server to serve after the handshake. On a connection of a [Door] it watches
// the HTTP/2 frames; one of another listener it returns as it is.
func Watch(raw, secure net.Conn) net.Conn {
	c, ours := raw.(*conn)
	if !ours {
		return secure
	}
	w := &watch{Conn: secure, conn: c, in: cursor{left: prefaceSize}, streams: make(map[uint32]stream)}
	c.hold(-max(0, c.held.Load())) // the handshake is over
	c.watched.Store(w)
	return w
}

// watch is an HTTP/2 connection that counts its frames as they pass. One goroutine reads, one writes, one sweeps.
type watch struct {
	net.Conn // after the handshake
	conn     *conn

	in, out    cursor
	requests   int         // that the last read completed
	complete   bool        // the last read was mostly of requests, or emptied the socket
	endsStream bool        // the frame or header block that is being read ends its stream
	answering  atomic.Bool // a request was answered, and none was reset since

	mu          sync.Mutex        // protects what follows
	streams     map[uint32]stream // that are not answered, by their numbers
	newest      uint32            // stream
	earlyResets int               // requests reset before they were whole since one was answered, or since the last sweep

	sweeps        int               // used by the sweeper alone, as is what follows
	newestAtSweep [maxSweeps]uint32 // the newest stream at each of the last sweeps
	earlySweeps   int               // sweeps in a row that saw many early resets
}

// stream is a request that is not answered.
type stream struct {
	held  int64 // bytes
	whole bool
}

// Read reads little at a time unless the last read completed requests, and requests are answered: small frames cost
// more for each byte, and the server holds requests that were reset until its goroutines have run.
func (w *watch) Read(b []byte) (int, error) {
	if !w.answering.Load() || !w.complete {
		b = b[:min(len(b), smallRead)]
	}
	n, err := w.conn.yieldAndRead(w.Conn, b)
	w.requests = 0
	held := w.in.advance(b[:n], w.received)
	w.complete = n < smallRead || n <= w.requests*maxPerRequest
	if !w.conn.hold(held) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (w *watch) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.conn.hold(w.out.advance(b[:n], w.sent))
	return n, err
}

// address is a client's address, by which a call finds its connection.
type address struct {
	net.Addr
	conn *conn
}

func (w *watch) RemoteAddr() net.Addr { return &address{w.Conn.RemoteAddr(), w.conn} }

// HoldAnswer adds the bytes of an answer that the client may leave unread to what its connection holds, until that is closed.
// The address is the RemoteAddr of a connection that Watch returned. It reports whether the connection may go on.
func HoldAnswer(client net.Addr, bytes int) bool {
	a, ours := client.(*address)
	return !ours || a.conn.hold(int64(bytes))
}

// frame is the head of one: its length, type, flags and stream.
type frame [9]byte

func (f *frame) length() int        { return int(f[0])<<16 | int(f[1])<<8 | int(f[2]) }
func (f *frame) kind() byte         { return f[3] }
func (f *frame) stream() uint32     { return binary.BigEndian.Uint32(f[5:]) &^ (1 << 31) }
func (f *frame) has(flag byte) bool { return f[4]&flag != 0 }

// cursor follows the frames of one direction, which are cut anywhere.
type cursor struct {
	frame frame
	head  int // bytes of its head that have passed
	left  int // bytes of its payload, or of the preface, still to pass
}

// advance calls do when the head of a frame has passed, and again when all of it has. It returns the sum of what do
// returns.
func (c *cursor) advance(b []byte, do func(f *frame, ended bool) int64) (sum int64) {
	for len(b) > 0 {
		if c.left == 0 {
			n := copy(c.frame[c.head:], b)
			c.head, b = c.head+n, b[n:]
			if c.head < len(c.frame) {
				break
			}
			c.left = c.frame.length()
			sum += do(&c.frame, false)
		}
		n := min(c.left, len(b))
		c.left, b = c.left-n, b[n:]
		if c.left == 0 && c.head == len(c.frame) {
			sum += do(&c.frame, true)
			c.head = 0
		}
	}
	return sum
}

// received accounts for a frame of the client's, and returns how many bytes more the connection holds.
func (w *watch) received(f *frame, ended bool) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, id, n := f.kind(), f.stream(), f.length()
	switch {
	case kind == frameReset && ended:
		return w.reset(id)
	case ended && w.endsStream && (kind == frameData ||
		(kind == frameHeaders || kind == frameContinuation) && f.has(endHeaders)):
		w.endsStream = false
		change := w.grow(id, perWhole-perStream, true)
		if change != 0 {
			w.requests++
		}
		return change
	case ended:
		return 0
	case kind == frameHeaders && id > w.newest:
		w.newest = id
		w.endsStream = f.has(endStream)
		if len(w.streams) == maxSeen {
			return 0 // the server refuses it: the client has begun too many
		}
		w.streams[id] = stream{}
		return w.grow(id, perStream+min(maxHeaders, perHeaders*max(0, n-freeHeader)), false)
	case kind == frameContinuation:
		return w.grow(id, min(maxHeaders, perHeaders*n), false)
	case kind == frameData:
		w.endsStream = f.has(endStream)
		return w.grow(id, perFrame+perByte*n, false)
	}
	return 0
}

// sent accounts for a frame of the server's: one that ends a stream frees what it held.
func (w *watch) sent(f *frame, ended bool) int64 {
	if !ended {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case f.kind() == frameReset:
		return w.reset(f.stream())
	case f.kind() == frameHeaders && f.has(endStream):
		w.conn.noteAnswer()
		w.answering.Store(true)
		w.earlyResets = 0
		s := w.streams[f.stream()]
		delete(w.streams, f.stream())
		return -s.held
	}
	return 0
}

// reset ends a stream without an answer. It is called with mu held, as is grow.
func (w *watch) reset(id uint32) int64 {
	s, open := w.streams[id]
	if open {
		w.answering.Store(false)
	}
	if open && !s.whole {
		w.earlyResets++
	}
	delete(w.streams, id)
	return -s.held
}

// grow adds to what a stream holds, unless it has ended, and returns how many bytes more are held.
func (w *watch) grow(id uint32, bytes int, whole bool) int64 {
	s, open := w.streams[id]
	if !open {
		return 0
	}
	w.streams[id] = stream{s.held + int64(bytes), s.whole || whole}
	return int64(bytes)
}

// resetsEarly reports whether the connection resets requests before they are whole, over and over, and has no answer.
// It takes more than one sweep: a client whose calls time out while weir reads nothing does so until that has passed.
func (w *watch) resetsEarly() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.earlyResets < manyResets {
		w.earlySweeps = 0
	} else {
		w.earlySweeps++
	}
	w.earlyResets = 0
	return w.earlySweeps >= resetSweeps
}

// overdue reports whether a request is not whole after maxSweeps. It counts sweeps: a process that stands still reads
// nothing.
func (w *watch) overdue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.sweeps % maxSweeps
	oldest := w.newestAtSweep[at]
	w.newestAtSweep[at], w.sweeps = w.newest, w.sweeps+1
	for id, s := range w.streams {
		if !s.whole && id <= oldest {
			return true
		}
	}
	return false
}
