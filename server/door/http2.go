package door

import (
	"encoding/binary"
	"net"
	"sync/atomic"
)

// MaxStreams is how many calls a client may have in flight on a connection. MaxHeaderList bounds the header list of
// each, in bytes as HTTP/2 counts them.
const (
	MaxStreams    = 256
	MaxHeaderList = 64 << 10
)

// What gRPC's server holds for a call until it is answered, in bytes, as measured, rounded up.
const (
	perStream  = 16 << 10 // while its request is not whole,
	perWhole   = 4 << 10  // and then
	perHeaders = 128      // for each byte of a header block beyond freeHeader: a field may be one byte
	freeHeader = 256
	maxHeaders = 256 << 10 // for the largest list
	perFrame   = 128       // for each DATA frame,
	perByte    = 4         // and each of its bytes: buffers have four sizes
)

const (
	maxSweeps = 10      // sweeps until a request must be whole
	slots     = 512     // a power of two above MaxStreams: the server refuses streams after they were seen
	whole     = 1 << 31 // set in the slot of a stream whose request is

	manyResets, resetSweeps = 100, 3 // resets of requests that are not whole, in sweeps running, that are hostile

	maxPerRequest = 4 << 10 // bytes for each request that a read completed; after a read of more, smallRead are read
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
	w := &watch{Conn: secure, conn: c, in: cursor{left: prefaceSize}}
	c.hold(-max(0, c.held.Load())) // the handshake is over
	c.watched.Store(w)
	return w
}

// watch is an HTTP/2 connection that counts its frames as they pass. One goroutine reads, one writes, one sweeps.
type watch struct {
	net.Conn // after the handshake
	conn     *conn

	in          cursor
	requests    int           // that the last read completed
	complete    bool          // the last read was mostly of requests, or emptied the socket
	endsStream  bool          // the frame or header block that is being read ends its stream
	newest      atomic.Uint32 // the newest stream; the reader sets it
	served      atomic.Bool   // a request was answered, and none was reset since
	earlyResets atomic.Uint32 // requests reset before they were whole since one was answered, or since the last sweep

	// streams has those that are not answered: 32 bits of number, 1 for whole, 31 of bytes held. The reader fills
	// slots, both sides empty them.
	streams [slots]atomic.Uint64
	out     cursor

	sweeps        int               // used by the sweeper alone, as is what follows
	newestAtSweep [maxSweeps]uint32 // the newest stream at each of the last sweeps
	earlySweeps   int               // sweeps in a row that saw many early ones
}

// Read reads little at a time unless the last read completed requests, and requests are answered: small frames cost
// more for each byte, and the server holds requests that were reset until its goroutines have run.
func (w *watch) Read(b []byte) (int, error) {
	if !w.served.Load() || !w.complete {
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
	kind, id, n := f.kind(), f.stream(), f.length()
	switch {
	case kind == frameReset && ended:
		return w.reset(id)
	case ended && w.endsStream && (kind == frameData || (kind == frameHeaders || kind == frameContinuation) && f.has(endHeaders)):
		w.endsStream = false
		change := w.update(id, func(slot uint64) uint64 { return (slot | whole) - (perStream - perWhole) })
		if change != 0 {
			w.requests++
		}
		return change
	case ended:
		return 0
	case kind == frameHeaders && id > w.newest.Load():
		w.newest.Store(id)
		w.endsStream = f.has(endStream)
		return w.open(id, perStream+min(maxHeaders, perHeaders*max(0, n-freeHeader)))
	case kind == frameContinuation:
		return w.update(id, func(slot uint64) uint64 { return slot + uint64(min(maxHeaders, perHeaders*n)) })
	case kind == frameData:
		w.endsStream = f.has(endStream)
		return w.update(id, func(slot uint64) uint64 { return slot + uint64(perFrame+perByte*n) })
	}
	return 0
}

// sent accounts for a frame of the server's: one that ends a stream frees what it held.
func (w *watch) sent(f *frame, ended bool) int64 {
	switch {
	case ended && f.kind() == frameReset:
		return w.reset(f.stream())
	case ended && f.kind() == frameHeaders && f.has(endStream):
		w.conn.noteAnswer()
		w.served.Store(true)
		w.earlyResets.Store(0)
		return w.update(f.stream(), func(uint64) uint64 { return 0 })
	}
	return 0
}

// reset ends a stream without an answer.
func (w *watch) reset(id uint32) int64 {
	isWhole := true
	change := w.update(id, func(slot uint64) uint64 {
		isWhole = slot&whole != 0
		return 0
	})
	if change < 0 {
		w.served.Store(false)
	}
	if !isWhole {
		w.earlyResets.Add(1)
	}
	return change
}

// resetsEarly reports whether the connection resets requests before they are whole, over and over, and has no answer.
// It takes more than one sweep: a client whose calls time out while weir reads nothing does so until that has passed.
func (w *watch) resetsEarly() bool {
	if w.earlyResets.Swap(0) < manyResets {
		w.earlySweeps = 0
		return false
	}
	w.earlySweeps++
	return w.earlySweeps >= resetSweeps
}

// open takes a slot for a stream. If none is free, the server refuses the stream: the client has begun too many.
func (w *watch) open(id uint32, bytes int) int64 {
	for i := range uint32(slots) {
		if slot := &w.streams[(id/2+i)%slots]; slot.Load() == 0 {
			slot.Store(uint64(id)<<32 | uint64(bytes))
			return int64(bytes)
		}
	}
	return 0
}

// update sets the slot of a stream that has not ended to what next makes of it, and returns how many bytes more the
// stream holds.
func (w *watch) update(id uint32, next func(slot uint64) uint64) int64 {
	for i := range uint32(slots) {
		slot := &w.streams[(id/2+i)%slots]
		for v := slot.Load(); v != 0 && uint32(v>>32) == id; v = slot.Load() {
			if to := next(v); slot.CompareAndSwap(v, to) {
				return int64(to%whole) - int64(v%whole)
			}
		}
	}
	return 0
}

// overdue reports whether a request is not whole after maxSweeps. It counts sweeps: a process that stands still reads
// nothing.
func (w *watch) overdue() bool {
	at := w.sweeps % maxSweeps
	oldest := w.newestAtSweep[at]
	w.newestAtSweep[at], w.sweeps = w.newest.Load(), w.sweeps+1
	for i := range w.streams {
		if v := w.streams[i].Load(); v != 0 && v&whole == 0 && uint32(v>>32) <= oldest {
			return true
		}
	}
	return false
}
