package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Stub is a server that says what a test wants, and remembers what it was asked. Real servers cannot be made to answer
// most errors on demand.
type Stub struct {
	Addr string
	// answer gives the reply to the n-th command of its kind, from 1: RESP, "" for none at all, HangUp or Reset.
	answer func(n int, command []string) string
	// Greeting is how long it takes to greet a new connection.
	Greeting time.Duration
	// Slots is its reply to CLUSTER SLOTS. All are its own if nothing else is set.
	Slots string

	mu    sync.Mutex
	asked map[string]int
	lines []string // the commands in the order of arrival
	conns []*net.TCPConn
}

// What a stub may do in place of a reply.
const (
	HangUp = "hang up" // closes the connection
	Reset  = "reset"   // and forgets what was sent
)

// Ones is the script's reply for so many checks.
func Ones(command []string) string {
	n, _ := strconv.Atoi(command[2])
	return fmt.Sprintf("*%d\r\n", n) + strings.Repeat("$1\r\n1\r\n", n)
}

// NewStub starts a stub until the end of the test.
func NewStub(t *testing.T, answer func(n int, command []string) string) *Stub {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stub{Addr: listener.Addr().String(), answer: answer, asked: make(map[string]int)}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.Slots = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%s\r\n", port)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn.(*net.TCPConn))
			s.mu.Unlock()
			serving.Go(func() { s.serve(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return s
}

func (s *Stub) serve(conn *net.TCPConn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, _, err := readCommand(in)
		if err != nil {
			return
		}
		name := strings.ToLower(command[0])
		s.mu.Lock()
		s.asked[name]++
		n := s.asked[name]
		if name != "hello" && name != "ping" && name != "cluster" {
			s.lines = append(s.lines, name)
		}
		s.mu.Unlock()
		reply := "+OK\r\n"
		if name == "hello" {
			time.Sleep(s.Greeting)
			reply = "-ERR unknown command\r\n" // go-redis then speaks RESP2
		} else if name == "cluster" {
			reply = s.Slots
		} else if r := s.answer(n, command); r != "+OK\r\n" {
			reply = r
		}
		switch reply {
		case Reset:
			_ = conn.SetLinger(0)
			return
		case HangUp:
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// Count is how often a command has arrived.
func (s *Stub) Count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// Commands are all that have arrived, but for greetings, PINGs, which a breaker may send, and looks at the map of slots.
func (s *Stub) Commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, " ")
}

// Answers is a stub's answers by the command and which of its kind it is: "incrby 1". Others are answered by 1, or
// Ones.
func Answers(replies map[string]string) func(n int, command []string) string {
	return func(n int, command []string) string {
		name := strings.ToLower(command[0])
		if reply, there := replies[fmt.Sprint(name, " ", n)]; there {
			return reply
		}
		switch name {
		case "asking", "ping", "script":
			return "+OK\r\n"
		case "evalsha":
			return Ones(command)
		}
		return ":1\r\n"
	}
}

// SumScript is a script that counts by INCRBY, in the form of package pipeline's scripts: what it counted is read with
// GET, to the integer.
const SumScript = `
local reply = {}
for i, key in ipairs(KEYS) do
	local ok, n = pcall(redis.call, 'INCRBY', key, ARGV[2 + string.byte(ARGV[2], i)])
	reply[i] = ok and tostring(n) or '!' .. tostring(type(n) == 'table' and n.err or n)
end
return reply`

// AppendSumKey appends the Redis key of a check's key. What stands before a slash in it chooses its slot.
func AppendSumKey(dst, key []byte) []byte {
	tag, _, _ := bytes.Cut(key, []byte("/"))
	dst = append(append(dst, "t:{"...), tag...)
	return append(append(dst, '}'), key...)
}

// SumKey is AppendSumKey as a string.
func SumKey(key string) string { return string(AppendSumKey(nil, []byte(key))) }

// Hit is a check of one hit of a key. Its limit, 1 a minute, is not looked at by SumScript.
func Hit(key string) backend.Check {
	limit, _ := descriptors.NewLimit(1, descriptors.Minute, 1, descriptors.FixedWindow, 0) // 1 a minute is one
	return backend.Check{Key: []byte(key), Limits: []descriptors.Limit{limit}, Hits: 1}
}

// Hits are checks of one hit of each key.
func Hits(keys ...string) []backend.Check {
	checks := make([]backend.Check, len(keys))
	for i, key := range keys {
		checks[i] = Hit(key)
	}
	return checks
}

// AppendSumArg appends what a check asks SumScript.
func AppendSumArg(dst []byte, c *backend.Check) []byte { return strconv.AppendUint(dst, c.Hits, 10) }

// DecodeSum reads what SumScript answers.
func DecodeSum(reply string, c *backend.Check) (backend.Decision, error) {
	n, err := strconv.ParseUint(reply, 10, 64)
	return backend.Decision{Allowed: true, Before: n - c.Hits}, err
}
