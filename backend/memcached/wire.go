package memcached

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxValue bounds the size that a reply may announce for a value, in bytes: as memcached does by default.
const maxValue = 1 << 20

// conn is a connection that speaks memcached's text protocol. It writes many commands, flushes, and reads their replies
// in order, as no maintained client does for cas and incr. After an error that is no [refusal] it must be closed. It is
// for one goroutine.
type conn struct {
	net.Conn
	in     *bufio.Reader
	out    *bufio.Writer
	used   time.Time
	head   []byte          // first line of the last value
	data   []byte          // data of the last value
	life   context.Context // the connection is closed when it ends
	unbind func() bool     // undoes that
}

// refusal is the error that a server answered to one command. Other commands on the connection are not affected.
type refusal string

// Error returns the text of the server's error.
func (r refusal) Error() string { return string(r) }

func isRefusal(err error) bool {
	_, is := err.(refusal)
	return is
}

// dial connects to a server. The connection is closed when ctx ends.
func (srv *server) dial(ctx context.Context, timeout time.Duration) (*conn, error) {
	soon, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	network := "tcp"
	if strings.Contains(srv.Name, "/") {
		network = "unix"
	}
	dial := new(net.Dialer).DialContext
	if srv.store.config.TLS != nil {
		dial = (&tls.Dialer{Config: srv.store.config.TLS()}).DialContext
	}
	c, err := dial(soon, network, srv.Name)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 16<<10), out: bufio.NewWriterSize(c, 16<<10), used: time.Now(),
		life: ctx, unbind: context.AfterFunc(ctx, func() { _ = c.Close() })}, nil
}

// close closes the connection.
func (c *conn) close() {
	c.unbind()
	_ = c.Close()
}

// write buffers a command of texts and numbers. The next Flush returns its error.
func (c *conn) write(parts ...any) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			_, _ = c.out.WriteString(part)
		case []byte:
			_, _ = c.out.Write(part)
		case int64:
			_, _ = c.out.Write(strconv.AppendInt(c.out.AvailableBuffer(), part, 10))
		}
	}
}

// addOrSwap buffers add, or cas if unique is not nil, of a value with a TTL in seconds.
func (c *conn) addOrSwap(name []byte, ttl int64, data []byte, unique []byte) {
	if unique == nil {
		c.write("add ", name, " 0 ", exptime(ttl), " ", int64(len(data)), "\r\n", data, "\r\n")
	} else {
		c.write("cas ", name, " 0 ", exptime(ttl), " ", int64(len(data)), " ", unique, "\r\n", data, "\r\n")
	}
}

// readLine reads a line, which is valid until the next read.
func (c *conn) readLine() ([]byte, error) {
	text, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("reading memcached's answer: %w", err)
	}
	text = bytes.TrimRight(text, "\r\n")
	if bytes.HasPrefix(text, []byte("SERVER_ERROR ")) || bytes.HasPrefix(text, []byte("CLIENT_ERROR ")) {
		return nil, refusal(text)
	}
	if bytes.Equal(text, []byte("ERROR")) { // the server may read what follows it as commands
		return nil, errors.New("memcached does not know the command")
	}
	return text, nil
}

// readWord reads a reply that must be one of these words.
func (c *conn) readWord(words ...string) (string, error) {
	text, err := c.readLine()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(words, func(w string) bool { return string(text) == w })
	if i < 0 {
		return "", fmt.Errorf("memcached answers %q instead of %s", text, words[0])
	}
	return words[i], nil
}

// readCount reads the reply to incr or decr. exists is false if there is no such key, so that nothing was counted.
func (c *conn) readCount() (after int64, exists bool, err error) {
	text, err := c.readLine()
	if err != nil || string(text) == "NOT_FOUND" {
		return 0, false, err
	}
	after, err = parseCount(text)
	return after, true, err
}

// parseCount parses an unsigned number of 64 bits. decr pads a number that becomes shorter with trailing spaces.
func parseCount(text []byte) (int64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimRight(text, " ")), 10, 64)
	if err != nil {
		return 0, refusal(fmt.Sprintf("the key holds %q, which is not a number: somebody else uses it", text[:min(len(text), 20)]))
	}
	return int64(min(n, math.MaxInt64)), nil
}

// value is a value in a server's reply, valid until the next read. The name is nil if there is no value.
type value struct {
	name, unique, data []byte
}

// readValue reads the next value of the reply to gets. After the last one it returns the zero value.
func (c *conn) readValue() (v value, err error) {
	text, err := c.readLine()
	if err != nil || bytes.Equal(text, []byte("END")) {
		return v, err
	}
	c.head = append(c.head[:0], text...) // the next read overwrites text
	kind, rest, _ := bytes.Cut(c.head, []byte(" "))
	v.name, rest, _ = bytes.Cut(rest, []byte(" "))
	_, rest, _ = bytes.Cut(rest, []byte(" ")) // flags
	length, unique, _ := bytes.Cut(rest, []byte(" "))
	size, err := strconv.Atoi(string(length))
	if string(kind) != "VALUE" || err != nil || size < 0 || size > maxValue {
		return v, fmt.Errorf("memcached answers %q, which is no value", c.head)
	}
	c.data = slices.Grow(c.data[:0], size+len("\r\n"))[:size+len("\r\n")]
	if _, err := io.ReadFull(c.in, c.data); err != nil {
		return v, fmt.Errorf("reading memcached's answer: %w", err)
	}
	v.unique, v.data = unique, c.data[:size]
	return v, nil
}

// readOne reads the reply to gets for one name, and calls use with the value if it exists.
func (c *conn) readOne(use func(data []byte) error) error {
	v, err := c.readValue()
	if err != nil || v.name == nil {
		return err
	}
	failed := use(v.data)
	_, err = c.readValue() // the end of the reply
	return cmp.Or(err, failed)
}

// statistics reads the server's statistics that are numbers.
func (c *conn) statistics() (map[string]uint64, error) {
	c.write("stats\r\n")
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	all := make(map[string]uint64)
	for {
		text, err := c.readLine()
		if err != nil || bytes.Equal(text, []byte("END")) {
			return all, err
		}
		name, number, _ := strings.Cut(strings.TrimPrefix(string(text), "STAT "), " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil {
			all[name] = n
		}
	}
}
