package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Option changes how servers are started. An option of a set holds for each of its servers.
type Option func(*settings)

// WithTLS lets single servers and rings talk TLS only, with clients that show their certificate. Server.TLS has the files.
func WithTLS() Option { return func(s *settings) { s.tls = true } }

// WithACL adds a user with the given rules, such as "~weir:*" and "+get". The default user is then off, unless
// WithPassword gives it a password.
func WithACL(user, password string, rules ...string) Option {
	return func(s *settings) {
		words := append([]string{"user", user, "on", quote(">" + password)}, rules...)
		s.users = append(s.users, strings.Join(words, " "))
	}
}

// WithPassword gives the default user a password.
func WithPassword(password string) Option { return func(s *settings) { s.password = password } }

// WithSentinelPassword gives the default user of sentinels a password. It changes nothing elsewhere.
func WithSentinelPassword(password string) Option {
	return func(s *settings) { s.sentinelPassword = password }
}

// WithUnixSocket lets servers listen on a unix socket as well: Server.Socket.
func WithUnixSocket() Option { return func(s *settings) { s.socket = true } }

// WithConfig adds lines to redis.conf, where they override what this package chose. They do not reach sentinels.
func WithConfig(lines ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, lines...) }
}

// WithEnvironment adds variables, NAME=value, to the environment of servers.
func WithEnvironment(variables ...string) Option {
	return func(s *settings) { s.environment = append(s.environment, variables...) }
}

// WithRelease starts another server than the one on PATH: one of Releases.
func WithRelease(name string) Option { return func(s *settings) { s.release = name } }

// settings say what servers have in common.
type settings struct {
	tls, socket, cluster       bool
	sentinel                   bool   // not a store but a sentinel
	release                    string // "" for the server on PATH
	password, sentinelPassword string
	users, lines, environment  []string
	certificates               *Certificates // with tls
}

// newSettings makes what the servers of a test share.
func newSettings(t testing.TB, options []Option) (s settings) {
	t.Helper()
	for _, option := range options {
		option(&s)
	}
	if s.tls {
		s.certificates = MakeCertificates(t)
	}
	return s
}

// ownUser is this package's user, where WithACL has taken the default one away.
const ownUser, ownPassword = "redistest", "redistest"

// login returns what this package's own clients say, and the servers to each other.
func (s settings) login() (user, password string) {
	switch {
	case s.sentinel:
		return "", s.sentinelPassword
	case len(s.users) > 0:
		return ownUser, ownPassword
	default:
		return "", s.password
	}
}

// config returns the text of a redis.conf.
func (s settings) config(port int, socket string) string {
	lines := []string{"bind 127.0.0.1"}
	if s.tls {
		c := s.certificates
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", port), "tls-cert-file "+quote(c.Cert),
			"tls-key-file "+quote(c.Key), "tls-ca-cert-file "+quote(c.CA), "tls-auth-clients yes")
	} else {
		lines = append(lines, fmt.Sprint("port ", port))
	}
	if s.sentinel {
		lines = append(lines, s.sentinelLines()...)
	} else {
		lines = append(lines, s.storeLines(socket)...)
	}
	return strings.Join(append(lines, s.lines...), "\n") + "\n"
}

func (s settings) storeLines(socket string) []string {
	// Without the delay of 5 s, replicas have their copy at once. A cluster names a replica once it has heard a PING of its
	// primary, which comes after 10 s otherwise.
	lines := []string{`save ""`, "appendonly no", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}
	if s.socket {
		lines = append(lines, "unixsocket "+quote(socket))
	}
	if s.cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 3000")
	}
	if s.password != "" {
		lines = append(lines, "requirepass "+quote(s.password))
	}
	if len(s.users) > 0 {
		lines = append(lines, fmt.Sprintf("user %s on >%s ~* &* +@all", ownUser, ownPassword))
		lines = append(lines, s.users...)
		if s.password == "" {
			lines = append(lines, "user default off")
		}
	}
	user, password := s.login()
	if user != "" {
		lines = append(lines, "masteruser "+user)
	}
	if password != "" {
		lines = append(lines, "masterauth "+quote(password))
	}
	return lines
}

func (s settings) sentinelLines() []string {
	if s.sentinelPassword == "" {
		return nil
	}
	return []string{"requirepass " + quote(s.sentinelPassword), "sentinel sentinel-pass " + quote(s.sentinelPassword)}
}

// quote writes a word as redis.conf wants it, which knows the usual escapes of Go's strings.
func quote(word string) string { return strconv.Quote(word) }
