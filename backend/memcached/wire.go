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
	head   []byte          // of a value
	data   []byte          // of the same
	life   context.Context // it is closed when that ends
	unbind func() bool     // from life
}

// refusal is the error that a server answered to one command. Other commands on the connection are not affected.
type refusal string

// Error returns the server's words.
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

// close closes the connection. Nothing more is read from it.
func (c *conn) close() {
	c.unbind()
	_ = c.Close()
}

// write buffers a command of texts and numbers. Flush returns what fails.
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

// addOrSwap buffers add, or cas where a unique is given, of a value that lives for so many seconds.
func (c *conn) addOrSwap(name []byte, life int64, data []byte, unique []byte) {
	if unique == nil {
		c.write("add ", name, " 0 ", expiry(life), " ", int64(len(data)), "\r\n", data, "\r\n")
	} else {
		c.write("cas ", name, " 0 ", expiry(life), " ", int64(len(data)), " ", unique, "\r\n", data, "\r\n")
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

// readWord reads one of the words that a command may be answered with.
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

// readCount reads the answer to incr and decr. It reports false if the key is not there, so that nothing was counted.
func (c *conn) readCount() (after int64, there bool, err error) {
	text, err := c.readLine()
	if err != nil || string(text) == "NOT_FOUND" {
		return 0, false, err
	}
	after, err = parseCount(text)
	return after, true, err
}

// parseCount reads an unsigned number of 64 bits. A number that decr made shorter has spaces behind it.
func parseCount(text []byte) (int64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimRight(text, " ")), 10, 64)
	if err != nil {
		return 0, refusal(fmt.Sprintf("the key holds %q, which is not a number: somebody else uses it", text[:min(len(text), 20)]))
	}
	return int64(min(n, math.MaxInt64)), nil
}

// value is a value that a server sent, valid until the next read. One without a name is not there.
type value struct {
	name, unique, data []byte
}

// readValue reads the next value of the answer to gets; after the last one, one that is not there.
func (c *conn) readValue() (v value, err error) {
	text, err := c.readLine()
	if err != nil || bytes.Equal(text, []byte("END")) {
		return v, err
	}
	c.head = append(c.head[:0], text...) // reading on overwrites text
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

// readOne reads the answer to gets for one name, and calls take with the value if it exists.
func (c *conn) readOne(take func(data []byte) error) error {
	v, err := c.readValue()
	if err != nil || v.name == nil {
		return err
	}
	unread := take(v.data)
	_, err = c.readValue() // which ends the answer
	return cmp.Or(err, unread)
}

// statistics reads the server's numbers by their names.
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
