package memcached

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"time"
)

// maxName is how long a name may be in memcached, in bytes.
const maxName = 250

// maxValue bounds the size that a reply may announce for a value, in bytes. memcached's own default is 1 MiB.
const maxValue = 64 << 20

// maxNamesALine is how many names one gets asks for: memcached closes connections that send longer lines.
const maxNamesALine = 40

// conn is a connection that speaks memcached's text protocol. It writes many commands, flushes, and reads their replies
// in order. After an error that is no [refusal] it must be closed. It is for one goroutine.
type conn struct {
	net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	used time.Time
	text []byte // of a number
	head []byte // of a value
}

// refusal is the error that a server answered to one command. Other commands on the connection are not affected.
type refusal string

// Error returns the server's words.
func (r refusal) Error() string { return string(r) }

// refused splits an error: into one that the server answered, or one of the connection.
func refused(err error) (answer, broken error) {
	if _, is := err.(refusal); is {
		return err, nil
	}
	return nil, err
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 16<<10), out: bufio.NewWriterSize(c, 16<<10), used: time.Now()}
}

// write buffers parts of a command. Flush returns what fails.
func (c *conn) write(words ...string) {
	for _, w := range words {
		_, _ = c.out.WriteString(w)
	}
}

func (c *conn) number(n int64) {
	c.text = strconv.AppendInt(c.text[:0], n, 10)
	_, _ = c.out.Write(c.text)
}

// count writes incr or decr.
func (c *conn) count(command string, name []byte, by int64) {
	c.write(command, " ")
	_, _ = c.out.Write(name)
	c.write(" ")
	c.number(by)
	c.write("\r\n")
}

// store writes add, or cas where a unique is given.
func (c *conn) store(name []byte, expires int64, data []byte, unique []byte) {
	command := "cas "
	if unique == nil {
		command = "add "
	}
	c.write(command)
	_, _ = c.out.Write(name)
	c.write(" 0 ")
	c.number(expires)
	c.write(" ")
	c.number(int64(len(data)))
	if unique != nil {
		c.write(" ")
		_, _ = c.out.Write(unique)
	}
	c.write("\r\n")
	_, _ = c.out.Write(data)
	c.write("\r\n")
}

// line reads a line, which is valid until the next read.
func (c *conn) line() ([]byte, error) {
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

// value is a value that a server sent.
type value struct {
	name, unique, data []byte
}

// values reads the answer to get or gets, and calls take with each value, whose slices take must not keep.
func (c *conn) values(take func(value) error) error {
	for {
		text, err := c.line()
		if err != nil || bytes.Equal(text, []byte("END")) {
			return err
		}
		c.head = append(c.head[:0], text...) // reading the data may overwrite text
		var v value
		kind, rest, _ := bytes.Cut(c.head, []byte(" "))
		v.name, rest, _ = bytes.Cut(rest, []byte(" "))
		_, rest, _ = bytes.Cut(rest, []byte(" ")) // flags
		length, unique, _ := bytes.Cut(rest, []byte(" "))
		size, err := strconv.Atoi(string(length))
		if string(kind) != "VALUE" || err != nil || size < 0 || size > maxValue {
			return fmt.Errorf("memcached answers %q, which is no value", c.head)
		}
		v.unique = unique
		if v.data, err = c.bytes(size + len("\r\n")); err != nil {
			return fmt.Errorf("reading memcached's answer: %w", err)
		}
		v.data = v.data[:size]
		if err := take(v); err != nil {
			return err
		}
	}
}

// bytes reads n bytes, which are valid until the next read.
func (c *conn) bytes(n int) ([]byte, error) {
	if n > c.in.Size() {
		data := make([]byte, n)
		_, err := io.ReadFull(c.in, data)
		return data, err
	}
	data, err := c.in.Peek(n)
	if err == nil {
		_, err = c.in.Discard(n)
	}
	return data, err
}

// word reads one of the words that a command may be answered with.
func (c *conn) word(words ...string) (string, error) {
	text, err := c.line()
	if err != nil {
		return "", err
	}
	for _, w := range words {
		if string(text) == w {
			return w, nil
		}
	}
	return "", fmt.Errorf("memcached answers %q instead of %s", text, words[0])
}

// counted reads the answer to incr and decr. It reports false if the key is not there, so that nothing was counted.
func (c *conn) counted() (after int64, there bool, err error) {
	text, err := c.line()
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

// gets buffers gets commands for so many names, and returns how many commands there are.
func (c *conn) gets(names int, name func(i int) []byte) (lines int) {
	for i := range names {
		if i%maxNamesALine == 0 {
			c.write("gets")
			lines++
		}
		c.write(" ")
		_, _ = c.out.Write(name(i))
		if i%maxNamesALine == maxNamesALine-1 || i == names-1 {
			c.write("\r\n")
		}
	}
	return lines
}

// one reads one value, and calls take if it is there.
func (c *conn) one(name []byte, take func(value) error) error {
	c.gets(1, func(int) []byte { return name })
	if err := c.out.Flush(); err != nil {
		return err
	}
	return c.values(take)
}

// statistics reads the server's numbers by their names.
func (c *conn) statistics() (map[string]uint64, error) {
	c.write("stats\r\n")
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	all := make(map[string]uint64)
	for {
		text, err := c.line()
		if err != nil || bytes.Equal(text, []byte("END")) {
			return all, err
		}
		if words := bytes.Fields(text); len(words) == 3 {
			if n, err := strconv.ParseUint(string(words[2]), 10, 64); err == nil {
				all[string(words[1])] = n
			}
		}
	}
}

// ping asks for the version, which every server answers at once.
func (c *conn) ping() error {
	c.write("version\r\n")
	if err := c.out.Flush(); err != nil {
		return err
	}
	_, err := c.line()
	return err
}

// closeAt lets reads and writes fail from when ctx ends, until stop is called.
func (c *conn) closeAt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
}
