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

// maxSentinels is how many other sentinels the sentinels may name during the life of the process, as go-redis dials all
// of them at once and never drops one.
const maxSentinels = 100

// maxSentinelReply is the longest reply of a sentinel, in bytes; maxSentinels take a tenth of it.
const maxSentinelReply = 1 << 20

var errSentinel = errors.New("the sentinel's reply cannot be used")

// sentinels checks the replies of sentinels before go-redis reads them: some would end the process.
type sentinels struct {
	log    *slog.Logger
	warned throttle.Lines // by address and problem

	mu    sync.Mutex
	named map[string]bool // by address of a sentinel
}

func newSentinels(c Config) *sentinels {
	return &sentinels{log: c.Log, named: make(map[string]bool)}
}

// checkConns makes every new connection a sentinelConn. The dialHook of the primary's client unwraps those to the
// primary.
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

// countChanges returns a function that counts a loss when the primary's address changes: a replica lacks the last
// writes.
func countChanges(losses *atomic.Uint64) func(addr string) {
	var last atomic.Value // string
	return func(addr string) {
		if before := last.Swap(addr); before != nil && before != addr {
			losses.Add(1)
		}
	}
}

// sentinelConn is a connection to a sentinel. It passes a reply on when it has come as a whole and fits the last
// command.
type sentinelConn struct {
	net.Conn
	sentinels *sentinels
	addr      string
	command   atomic.Value // the last of sentinelCommands that was sent
	reader    *bufio.Reader
	unread    []byte // the part of a reply for the next Read
	failed    error
}

const getPrimary, getSentinels, subscribe = "get-master-addr-by-name", "sentinels", "subscribe"

var sentinelCommands = []string{getPrimary, getSentinels, subscribe}

const hello = "$5\r\nhello\r\n$1\r\n"

// Write notes the command that go-redis sends. It asks for RESP2 in HELLO, as go-redis asks sentinels for RESP3
// whatever its options say.
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
		c.unread, c.failed = c.readValid()
	}
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; n == 0 {
		return 0, c.failed
	}
	return n, nil
}

// readValid reads a reply. It returns nothing for a message that it ignores.
func (c *sentinelConn) readValid() ([]byte, error) {
	raw, words, err := readReply(c.reader)
	problem, effect := "", "other sentinels are asked; without any, failure policies decide"
	command, _ := c.command.Load().(string)
	switch {
	case errors.Is(err, errSentinel):
		problem = "it does not speak like a sentinel"
	case err != nil:
		return nil, err
	case words[0][0] != '*' || words[0] == "*-1": // an error, or nothing
	case command == getPrimary && kinds(words) != "*$$":
		problem = "asked for the primary, it does not answer with an address and a port"
	case command == getSentinels && !c.sentinels.noteNamed(words):
		problem = fmt.Sprintf("with it, sentinels name more than %d others", maxSentinels)
		effect = "those that are known by now are asked"
	case command == subscribe && !isMessage(words):
		c.sentinels.warn(c.addr, "it sends a message that no sentinel sends",
			"the message is ignored: another primary is found when the old one does not answer")
		return nil, nil
	}
	if problem == "" {
		return raw, nil
	}
	c.sentinels.warn(c.addr, problem, effect)
	return nil, cmp.Or(err, fmt.Errorf("%w: %s", errSentinel, problem))
}

// readReply reads a reply in RESP2. It returns its bytes, and its elements, each after the first byte of its type. It
// refuses an error or a nil in a list: go-redis would stop reading there, and take the rest for the next reply.
func readReply(reader *bufio.Reader) (raw []byte, words []string, err error) {
	for more := 1; more > 0; more-- {
		line, err := reader.ReadBytes('\n') // replyScanner bounds its length
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

// kinds returns the first bytes of words, which are their RESP types.
func kinds(words []string) string {
	var signs strings.Builder
	for _, w := range words {
		signs.WriteByte(w[0])
	}
	return signs.String()
}

// isMessage reports whether words are a message of a subscription. +switch-master has five fields: name, old and new
// address.
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

// noteNamed notes the sentinels that a reply names, and returns false if they become too many.
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

// warn logs once that a sentinel has a problem.
func (s *sentinels) warn(addr, problem, effect string) {
	if s.warned.Due(addr+problem, "", 0) {
		s.log.Warn("unusable reply of a sentinel", "sentinel", addr, "problem", problem, "effect", effect,
			"remedy", "see what listens at that address; name working sentinels only in the URL")
	}
}
