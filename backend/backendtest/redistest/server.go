package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// Server is one process. It keeps its address when it is killed and started again.
type Server struct {
	Addr   string        // host:port
	Socket string        // the path of its unix socket, empty without WithUnixSocket
	TLS    *Certificates // nil without WithTLS

	name   string // for logs
	dir    string
	binary string
	args   []string
	ready  string // what it prints when it is

	environment []string
	client      *redis.Client
	log         process.Output
	release     func() // gives its port back

	mu      sync.Mutex
	process *process.Process
	frozen  bool
}

// Single starts one server.
func Single(t testing.TB, options ...Option) *Server {
	t.Helper()
	return Start(t, "single", options...).Servers[0]
}

// StartSingle is Single without a test: the server's files are in dir, and the caller closes it.
func StartSingle(dir string) (*Server, error) { return startServer(dir, "redis", settings{}) }

// Ring starts n independent servers.
func Ring(t testing.TB, n int, options ...Option) []*Server {
	t.Helper()
	return keep(t, func(dir string) (*Set, error) { return startRing(dir, n, newSettings(t, options)) }).Servers
}

// startServers starts n servers at once, or none.
func startServers(dir, name string, n int, s settings) (servers, error) {
	started, failed := make(servers, n), make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		name := fmt.Sprint(name, "-", i)
		running.Go(func() { started[i], failed[i] = startServer(filepath.Join(dir, name), name, s) })
	}
	running.Wait()
	if err := errors.Join(failed...); err != nil {
		started.Close()
		return nil, err
	}
	return started, nil
}

// startServer starts a server on a port of its own.
func startServer(dir, name string, settings settings) (*Server, error) {
	binary, err := findBinary(settings.release)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "redis.conf")
	s := &Server{
		TLS: settings.certificates, name: name, dir: dir, binary: binary, args: []string{file},
		ready: "eady to accept connections", environment: settings.environment,
	}
	if settings.sentinel {
		s.args, s.ready = append(s.args, "--sentinel"), "Sentinel ID is"
	}
	if settings.socket {
		s.Socket = filepath.Join(dir, "redis.sock")
	}
	hold := process.HoldPort
	if settings.cluster {
		hold = process.HoldBusPort
	}
	port, release, err := hold()
	if err != nil {
		return nil, err
	}
	s.Addr, s.release = fmt.Sprint("127.0.0.1:", port), release
	if err := os.WriteFile(file, []byte(settings.config(port, s.Socket)), 0o600); err != nil {
		return nil, err
	}
	if err := s.launch(); err != nil {
		release()
		return nil, err
	}
	s.client = s.newClient(settings)
	return s, nil
}

// launch starts the process, the first time or again.
func (s *Server) launch() (err error) {
	cmd := exec.Command(s.binary, s.args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.environment...)
	s.process, err = process.Launch(s.name+" at "+s.Addr, cmd, &s.log, s.ready)
	return err
}

func (s *Server) newClient(settings settings) *redis.Client {
	user, password := settings.login()
	var config *tls.Config
	if s.TLS != nil {
		config = s.TLS.Client()
	}
	return redis.NewClient(&redis.Options{
		Addr: s.Addr, Username: user, Password: password, TLSConfig: config,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		// Nothing that a test did not ask for may be in the server's counts.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Client is for a test's own commands: it may do everything, sends each at most once and reconnects after a Restart.
// The server closes it.
func (s *Server) Client() *redis.Client { return s.client }

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
}

// Freeze stops the process until Thaw: the kernel accepts connections and bytes for it, and nobody answers.
func (s *Server) Freeze() { s.freeze(true) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.freeze(false) }

func (s *Server) freeze(frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = frozen
	if frozen {
		_ = s.process.Send(syscall.SIGSTOP) // it may have ended
	} else {
		_ = s.process.Send(syscall.SIGCONT)
	}
}

// awake reports whether the server can answer.
func (s *Server) awake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Ended() == nil && !s.frozen
}

// Restart kills the server if it runs and starts it again, with the same address and configuration. What was in memory
// is lost, unless WithConfig asked for persistence.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
	s.frozen = false
	if err := s.launch(); err != nil {
		t.Fatalf("starting it again: %v", err)
	}
}

// Close ends the server and its client.
func (s *Server) Close() {
	_ = s.client.Close() // nobody waits for its answers any more
	s.Kill()
	s.release()
}

// Log returns what the server printed, in all its runs.
func (s *Server) Log() string { return fmt.Sprintf("%s at %s printed:\n%s", s.name, s.Addr, &s.log) }

// Info reads a section of INFO, such as "stats". Asking is itself a command and a read: it is in the counts of the next
// time.
func (s *Server) Info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.client.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("asking %s for INFO %s: %w", s.name, section, err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

// CPU returns how much processor time the server has used since it started.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	fields, err := s.Info(t.Context(), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	var used time.Duration
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		d, err := time.ParseDuration(fields[name] + "s")
		if err != nil {
			t.Fatalf("%s has no seconds in %s of its INFO: %v", s.name, name, err)
		}
		used += d
	}
	return used
}

// servers end together.
type servers []*Server

// Close ends those that were started.
func (list servers) Close() {
	for _, s := range list {
		if s != nil {
			s.Close()
		}
	}
}

// Log returns what all of them printed.
func (list servers) Log() string {
	var text strings.Builder
	for _, s := range list {
		fmt.Fprintln(&text, s.Log())
	}
	return text.String()
}

// awake returns those that can answer.
func (list servers) awake() servers {
	return slices.DeleteFunc(slices.Clone(list), func(s *Server) bool { return !s.awake() })
}

func addrs(of servers) []string {
	var addrs []string
	for _, s := range of {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}
