package counter

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// stub is a server that says what a test wants, and remembers what it was asked. Real servers cannot be made to answer
// most errors on demand.
type stub struct {
	addr string
	// answer gives the reply to the n-th command of its kind, from 1: RESP, "" for none at all, or hangUp.
	answer func(n int, command []string) string
	// greeting is how long it takes to greet a new connection.
	greeting time.Duration

	mu    sync.Mutex
	asked map[string]int
	lines []string // the commands in the order of arrival
	conns []*net.TCPConn
}

const (
	hangUp = "hang up" // closes the connection
	reset  = "reset"   // and forgets what was sent
)

// ones is the script's reply for so many checks.
func ones(command []string) string {
	n, _ := strconv.Atoi(command[2])
	return fmt.Sprintf("*%d\r\n", n) + strings.Repeat("$1\r\n1\r\n", n)
}

func newStub(t *testing.T, answer func(n int, command []string) string) *stub {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{addr: listener.Addr().String(), answer: answer, asked: make(map[string]int)}
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

func (s *stub) serve(conn *net.TCPConn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		name := strings.ToLower(command[0])
		s.mu.Lock()
		s.asked[name]++
		n := s.asked[name]
		if name != "hello" && name != "ping" {
			s.lines = append(s.lines, name)
		}
		s.mu.Unlock()
		reply := "+OK\r\n"
		if name == "hello" {
			time.Sleep(s.greeting)
			reply = "-ERR unknown command\r\n" // go-redis then speaks RESP2
		} else if r := s.answer(n, command); r != "+OK\r\n" {
			reply = r
		}
		switch reply {
		case reset:
			_ = conn.SetLinger(0)
			return
		case hangUp:
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, nil
}

// count is how often a command has arrived.
func (s *stub) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// commands are all that have arrived, but for greetings and PINGs, which a breaker may send.
func (s *stub) commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, " ")
}

// connect connects to the servers of a configuration until the end of the test.
func connect(t testing.TB, c redis.Config) *redis.Servers {
	t.Helper()
	c.Log, c.Timeout = slog.New(slog.DiscardHandler), cmp.Or(c.Timeout, ample)
	servers, err := redis.Connect(c, redis.Rights{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	return servers
}

// ownerOf returns the client of the server that has all keys.
func ownerOf(t testing.TB, c redis.Config) *goredis.Client {
	t.Helper()
	client, err := connect(t, c).Owner(nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func testClient(t *testing.T, addr string, timeout time.Duration) *goredis.Client {
	t.Helper()
	return ownerOf(t, redis.Config{URL: addr, Timeout: timeout})
}

// learnt is connect for servers that know at once who owns which slots.
func learnt(t *testing.T, c redis.Config) *redis.Servers {
	t.Helper()
	servers := connect(t, c)
	nothing := func(string, func(...any) (any, error)) error { return nil }
	if err := servers.Each(t.Context(), nothing); err != nil {
		t.Fatalf("learning who owns which slots: %v", err)
	}
	return servers
}

// storeAt returns a store of the plain script that knows which servers there are.
func storeAt(t *testing.T, c redis.Config) *Store {
	t.Helper()
	return storeOn(t, learnt(t, c))
}

// single starts one server, and returns how it is reached.
func single(t testing.TB, options ...redistest.Option) redis.Config {
	t.Helper()
	return redis.Config{URL: redistest.Single(t, options...).Addr}
}
