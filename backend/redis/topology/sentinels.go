package topology

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/throttle"
)

// maxSentinels is how many others sentinels may name since the start: go-redis dials all at once, and forgets none.
const maxSentinels = 100

// maxSentinelReply is the longest reply of a sentinel, in bytes; maxSentinels take a tenth of it.
const maxSentinelReply = 1 << 20

var errSentinel = errors.New("the sentinel's reply cannot be used")

// sentinels checks the replies of sentinels before go-redis reads them: some would end the process.
type sentinels struct {
	log    *slog.Logger
	warned throttle.Lines // of addresses and troubles

	mu    sync.Mutex
	named map[string]bool // ip and port of sentinels
}

func newSentinels(c Config) *sentinels {
	return &sentinels{log: c.Log, named: make(map[string]bool)}
}

// checkConns makes every connection a sentinelConn. The dialHook of the primary's client unwraps those to the primary.
func (s *sentinels) checkConns(o *goredis.FailoverOptions) *goredis.FailoverOptions {
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return conn, err
		}
		return &sentinelConn{Conn: conn, sentinels: s, addr: addr, reader: bufio.NewReader(conn)}, nil
	}
	return o
}

// countChanges returns what counts each change of a primary as a loss: replicas lack what came last.
func countChanges(losses *atomic.Uint64) func(addr string) {
	var last atomic.Value // string
	return func(addr string) {
		if before := last.Swap(addr); before != nil && before != addr {
			losses.Add(1)
		}
	}
}

// sentinelConn is a connection to a sentinel. It gives one whole reply at a time, for what was asked last.
type sentinelConn struct {
	net.Conn
	sentinels *sentinels
	addr      string
	command   atomic.Value // one of sentinelCommands, none until one is sent
	reader    *bufio.Reader
	unread    []byte // of a reply, for the next Read
	failed    error
}

const getPrimary, getSentinels, subscribe = "get-master-addr-by-name", "sentinels", "subscribe"

var sentinelCommands = []string{getPrimary, getSentinels, subscribe}

const hello = "$5\r\nhello\r\n$1\r\n"

// Write sends what go-redis asks. go-redis greets sentinels in RESP3, whatever it is told to speak.
func (c *sentinelConn) Write(p []byte) (int, error) {
	for _, command := range sentinelCommands {
		if bytes.Contains(p, []byte("\n"+command+"\r\n")) {
			c.command.Store(command)
			break
		}
	}
	return c.Conn.Write(bytes.Replace(p, []byte(hello+"3"), []byte(hello+"2"), 1))
}

func (c *sentinelConn) Read(p []byte) (int, error) {
	for len(c.unread) == 0 && c.failed == nil {
		c.unread, c.failed = c.next()
	}
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; n == 0 {
		return 0, c.failed
	}
	return n, nil
}

// next reads a reply. It returns nothing for a message that cannot be used.
func (c *sentinelConn) next() ([]byte, error) {
	raw, words, err := readReply(c.reader)
	trouble, effect := "", "other sentinels are asked; without any, failure policies decide"
	command, _ := c.command.Load().(string)
	switch {
	case errors.Is(err, errSentinel):
		trouble = "it does not speak like a sentinel"
	case err != nil:
		return nil, err
	case words[0][0] != '*' || words[0] == "*-1": // an error, or nothing
	case command == getPrimary && kinds(words) != "*$$":
		trouble = "asked for the primary, it does not answer with an address and a port"
	case command == getSentinels && !c.sentinels.noteNamed(words):
		trouble = fmt.Sprintf("with it, sentinels name more than %d others", maxSentinels)
		effect = "those that are known by now are asked"
	case command == subscribe && !isMessage(words):
		c.sentinels.warn(c.addr, "it sends a message that no sentinel sends",
			"the message is ignored: another primary is found when the old one does not answer")
		return nil, nil
	}
	if trouble == "" {
		return raw, nil
	}
	c.sentinels.warn(c.addr, trouble, effect)
	return nil, cmp.Or(err, fmt.Errorf("%w: %s", errSentinel, trouble))
}

// readReply reads a reply in RESP2, as it came and as its words, each after the sign of its kind. go-redis would stop
// reading at an error or a nil in a list, and take the rest for the next reply.
func readReply(reader *bufio.Reader) (raw []byte, words []string, err error) {
	for more := 1; more > 0; more-- {
		line, err := reader.ReadBytes('\n') // which follow keeps short
		if err != nil {
			return nil, nil, err
		}
		raw = append(raw, line...)
		word := strings.TrimSuffix(string(line), "\r\n")
		number, failed := strconv.Atoi(word[min(1, len(word)):])
		sized := strings.HasPrefix(word, "*") || strings.HasPrefix(word, "$")
		if strings.IndexByte("+-:*$", line[0]) < 0 || sized && (failed != nil || number > maxSentinelReply) ||
			len(words) > 0 && (line[0] == '-' || sized && number < 0) || len(raw) > maxSentinelReply {
			return nil, nil, fmt.Errorf("%w: %.60q, %d bytes from its start", errSentinel, word, len(raw))
		}
		if line[0] == '*' {
			more += max(number, 0)
		} else if line[0] == '$' && number >= 0 {
			text := make([]byte, number+2)
			if _, err := io.ReadFull(reader, text); err != nil {
				return nil, nil, err
			}
			raw, word = append(raw, text...), "$"+string(text[:number])
		}
		words = append(words, word)
	}
	return raw, words, nil
}

// kinds returns the signs of the kinds of words.
func kinds(words []string) string {
	var signs strings.Builder
	for _, w := range words {
		signs.WriteByte(w[0])
	}
	return signs.String()
}

// isMessage reports whether words come from a subscription. +switch-master has five: name, old and new address.
func isMessage(words []string) bool {
	switch kinds(words) {
	case "*$$":
		return words[1] == "$pong"
	case "*$$:":
		return words[1] == "$subscribe"
	case "*$$$":
		return words[1] == "$message" && (words[2] != "$+switch-master" || strings.Count(words[3], " ") == 4)
	}
	return false
}

// noteNamed notes the sentinels of a reply, unless they get too many.
func (s *sentinels) noteNamed(words []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ip := ""
	for i, w := range words[:len(words)-1] {
		if w == "$ip" {
			ip = words[i+1]
		} else if w == "$port" {
			addr := ip + words[i+1]
			if !s.named[addr] && len(s.named) == maxSentinels {
				return false
			}
			s.named[addr] = true
		}
	}
	return true
}

// warn logs once what is wrong with a sentinel.
func (s *sentinels) warn(addr, trouble, effect string) {
	if s.warned.Due(addr+trouble, "", 0) {
		s.log.Warn("unusable reply of a sentinel", "sentinel", addr, "trouble", trouble, "effect", effect,
			"remedy", "see what listens at that address; name working sentinels only in the URL")
	}
}
