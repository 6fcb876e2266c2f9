// Package redis counts in Redis servers that all replicas of weir share. README.md draws a check's way through the
// package, KEYS.md describes the keys in the servers.
//
// Package topology knows which server owns a key, package pipeline sends commands there, each at most once, and this
// package makes the commands: calls of package script's script, or INCRBYs that package ratelimit decides by.
package redis

import (
	"strconv"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/throttle"
)

// Counters is a store in Redis: a [Store], or a pair of them.
type Counters interface {
	backend.Shared
	// Stats returns totals since the store was opened, and the present state of each server.
	Stats() pipeline.Stats
}

// ErrUnavailable is wrapped by a decision's Err when its check got no answer.
var ErrUnavailable = pipeline.ErrUnavailable

// Store counts one kind of keys in Redis servers, each check at most once. It sends a check again only if the server's
// reply proves that the check did not run.
type Store struct {
	*pipeline.Pipeline
	backend.Inspector // for this kind of keys

	servers  *topology.Servers
	script   *pipeline.Script // nil for keys of envoyproxy/ratelimit
	presence *presence
	now      func() time.Time // nil but in tests

	logged    throttle.Lines // by server: its last logged call mode, or its last logged refusal of a command
	startOnce sync.Once      // guards start
}

var _ Counters = (*Store)(nil)

// Config configures a store.
type Config struct {
	// Redis configures the connections to the servers.
	Redis topology.Config
	// Now, if not nil, replaces the servers' clock, in tests.
	Now func() time.Time
	// Meter, if not nil, is called once for each server and returns its meter.
	Meter func(server string) pipeline.Meter
	// Trace, if not nil, traces each exchange with a server.
	Trace outbound.Trace
	// ScriptsOnly turns Redis Functions off.
	ScriptsOnly bool
}

// Open makes a store that counts by the script. It contacts no server; the background probes do, see [backend.Health].
func Open(c Config) (*Store, error) { return open(c, c.newScript()) }

// open is Open for a version of the script.
func open(c Config, code *pipeline.Script) (*Store, error) {
	servers, err := topology.Connect(c.Redis, rights)
	if err != nil {
		return nil, err
	}
	s := newScripted(servers, c, code)
	s.start()
	return s, nil
}

// start starts the probes and the presence, unless they have started or the store is closed.
func (s *Store) start() {
	s.startOnce.Do(func() {
		s.StartProbes(s.probe)
		s.presence.start()
	})
}

func (c *Config) newScript() *pipeline.Script {
	if c.ScriptsOnly {
		return pipeline.NewScript(script.Source())
	}
	return pipeline.NewScript(script.Source()).WithLibrary(script.Library(), script.Function())
}

// newScripted makes a store that counts by a script on servers, which its Close closes. It contacts no server before
// start.
func newScripted(servers *topology.Servers, c Config, code *pipeline.Script) *Store {
	s := &Store{servers: servers, now: c.Now, script: code}
	codec := pipeline.ScriptCodec{
		AppendKey: script.AppendKey, AppendArg: script.AppendArg, DecodeReply: script.Decode,
	}
	if s.now != nil {
		codec.Now = func() string { return strconv.FormatInt(s.now().UnixMicro(), 10) }
	}
	s.Inspector, s.presence = scriptInspector{s}, newPresence(s)
	s.Pipeline = pipeline.New(servers, codec, code, c.Meter, c.Trace)
	return s
}

// newRatelimit makes a store of envoyproxy/ratelimit's keys on servers, which its Close closes. It does not start its
// presence.
func newRatelimit(servers *topology.Servers, c Config, keys ratelimit.Keys) *Store {
	s := &Store{servers: servers, now: c.Now}
	p := &ratelimitCodec{store: s, keys: keys}
	s.Inspector, s.presence = p, newPresence(s)
	s.Pipeline = pipeline.New(servers, p, nil, c.Meter, c.Trace)
	return s
}

// Close implements [backend.Counter].
func (s *Store) Close() error {
	s.startOnce.Do(func() {}) // start does nothing from now on
	s.presence.stopAndWait()
	return s.Pipeline.Close()
}

// clock returns the time by the clock of this process, or that of a test.
func (s *Store) clock() time.Time {
	if s.now != nil {
		return s.now()
	}
	return time.Now()
}
