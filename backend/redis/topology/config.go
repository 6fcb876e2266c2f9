// Package topology connects to Redis servers: a single one, a primary with sentinels, a cluster, or a ring of
// independent ones. It parses their URLs, makes their clients, explains their errors, and finds the server that owns a
// key. Package pipeline sends commands to them.
package topology

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/descriptors/regular"
)

// Type is the kind of a topology.
type Type string

const (
	// Single is one server.
	Single Type = "single"
	// Sentinel is a primary with replicas; sentinels say which one is the primary.
	Sentinel Type = "sentinel"
	// Cluster is a Redis Cluster.
	Cluster Type = "cluster"
	// Ring is a number of servers that know nothing of each other; keys are placed on them by consistent hashing.
	Ring Type = "ring"
)

// UnmarshalText reads single, sentinel, cluster or ring, in any case.
func (t *Type) UnmarshalText(name []byte) error {
	*t = Type(strings.ToLower(string(name)))
	if !slices.Contains([]Type{Single, Sentinel, Cluster, Ring}, *t) {
		return fmt.Errorf("%q is not a type of Redis: use one of single, sentinel, cluster, ring", name)
	}
	return nil
}

// NodeLoss says where the keys of a lost ring node go. A node is lost after three missed PINGs in a row, and back after
// one PONG.
type NodeLoss string

const (
	// Remap moves the keys of a lost node to the others, where they start from nothing, until it is back.
	Remap NodeLoss = "remap"
	// Pin leaves the keys on the lost node: they cannot be counted until it is back.
	Pin NodeLoss = "pin"
)

// UnmarshalText reads remap or pin, in any case.
func (n *NodeLoss) UnmarshalText(name []byte) error {
	*n = NodeLoss(strings.ToLower(string(name)))
	if *n != Remap && *n != Pin {
		return fmt.Errorf("%q is not a policy for lost ring nodes: use remap or pin", name)
	}
	return nil
}

const (
	// DefaultPoolSize has room for the 16 batches that may be out to a server, and for probes.
	DefaultPoolSize = 20

	// DefaultTimeout is longer than a TLS handshake between zones, or a pause of Redis while it forks.
	DefaultTimeout = 500 * time.Millisecond

	// DefaultProbePause and DefaultLongestProbePause are the defaults of ProbePause and LongestProbePause.
	DefaultProbePause, DefaultLongestProbePause = time.Second, 30 * time.Second
)

// Config configures the connections to Redis. The zero value of a field is its default.
type Config struct {
	// Type is Single by default.
	Type Type

	// URL names the servers:
	//
	//	single    host:port, redis://[user:password@]host[:port][/db], rediss:// for TLS, or the path of a unix socket;
	//	          ?username=, ?password= and ?db= stand for those parts
	//	sentinel  name,host:port,host:port   the primary's name, then sentinels, also as redis://[user:password@]host:port
	//	cluster   one server or more, separated by commas, each as for single but for a path; named twice it is one
	//	ring      all servers, likewise, in any order; keys are placed by their addresses as written, without scheme and
	//	          credentials, so 10.0.0.1:6379 and redis-1:6379 are different nodes
	//
	// Credentials in a URL take precedence over Auth and AuthFile.
	URL string

	// URLFile is a file to read the URL from; it takes precedence over URL. Line ends separate like commas. A ring reads
	// it every second and follows its changes; a file that is invalid or empty changes nothing and is logged.
	URLFile string

	// SocketType, tcp or unix, is for Single only, and must fit the URL. By default it follows from the URL. With unix, a
	// path has a slash or a dot, and need not begin with a slash.
	SocketType string

	// Auth is password or user:password.
	Auth string

	// AuthFile is a file with the value of Auth. It is read for every new connection; open connections stay.
	AuthFile string

	// SentinelAuth is password or user:password for the sentinels.
	SentinelAuth string

	// TLS turns TLS on for all servers, sentinels included. For a server that is written as rediss:// it is always on.
	TLS bool

	// TLSConfig returns the configuration of the next connection with TLS. If it has no ServerName, the certificate must
	// have the host of the server's address. By default the system's authorities are trusted.
	TLSConfig func() *tls.Config

	// PoolSize bounds the connections to a server, DefaultPoolSize by default. Below 18, batches may wait for a
	// connection.
	PoolSize int

	// Timeout bounds each of connecting (TLS included), a write, a read, and the wait for a connection, DefaultTimeout by
	// default.
	Timeout time.Duration

	// NodeLoss is for Ring only, Remap by default.
	NodeLoss NodeLoss

	// Fixed is for Ring only: the nodes are those of the URL at the start, and none is ever lost. A [Destination] may name
	// one.
	Fixed bool

	// ProbePause is the pause between probes while no server can count. It doubles up to LongestProbePause.
	// DefaultProbePause and DefaultLongestProbePause by default.
	ProbePause, LongestProbePause time.Duration

	// GiveUp is how long Await waits for a server that can count, from the first probe on. By default it waits for ever.
	GiveUp time.Duration

	// Connections, if not nil, counts the connections.
	Connections *Connections

	// Log is slog.Default() by default.
	Log *slog.Logger
}

// withDefaults checks what can be checked without a server, and fills in the defaults.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.SocketType != "" && c.SocketType != "tcp" && c.SocketType != "unix":
		return c, fmt.Errorf("redis: socket type %q: use tcp or unix, or leave it to the URL", c.SocketType)
	case c.Auth != "" && c.AuthFile != "":
		return c, errors.New("redis: there are credentials and a file of credentials: use one of them")
	case c.URL == "" && c.URLFile == "":
		return c, errors.New("redis: no URL says where it is")
	case strings.Contains(c.URLFile, "://"):
		return c, errors.New("redis: the file of the URL is a URL: name a file that holds it")
	}
	c.Type, c.NodeLoss = cmp.Or(c.Type, Single), cmp.Or(c.NodeLoss, Remap)
	c.PoolSize = cmp.Or(c.PoolSize, DefaultPoolSize)
	c.Connections = cmp.Or(c.Connections, new(Connections))
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.LongestProbePause = cmp.Or(c.LongestProbePause, DefaultLongestProbePause)
	c.ProbePause = min(cmp.Or(c.ProbePause, DefaultProbePause), c.LongestProbePause)
	if c.TLSConfig == nil {
		c.TLSConfig = func() *tls.Config { return nil }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, nil
}

// readURL returns the URL, or what its file holds now.
func (c Config) readURL() (string, error) {
	if c.URLFile == "" {
		return c.URL, nil
	}
	content, err := regular.ReadFile(c.URLFile)
	if err != nil {
		return "", fmt.Errorf("redis: the file that holds its URL: %w", err)
	}
	return string(content), nil
}
