// Package redis counts in Redis servers that all replicas of weir share. README.md draws a check's way through it,
// KEYS.md what the servers hold.
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

// Counters are a store in Redis: a [Store], or two of them.
type Counters interface {
	backend.Shared
	// Stats returns what was sent, and what waits.
	Stats() pipeline.Stats
}

// ErrUnavailable is wrapped by a decision's Err when its check got no answer.
var ErrUnavailable = pipeline.ErrUnavailable

// Store counts one kind of keys in Redis servers, each check at most once: only proof that it did not run resends it.
type Store struct {
	*pipeline.Pipeline
	backend.Inspector // of this kind of keys

	servers  *topology.Servers
	script   *pipeline.Script // nil for keys of envoyproxy/ratelimit
	presence *presence        // of this process, among the replicas
	now      func() time.Time // nil but in tests

	logged    throttle.Lines // of a server: its call mode, or why it refuses a command
	startOnce sync.Once      // of begin
}

var _ Counters = (*Store)(nil)

// Config is where weir counts.
type Config struct {
	// Redis is how the servers are reached.
	Redis topology.Config
	// Now, if not nil, replaces the servers' clock, in tests.
	Now func() time.Time
	// Meter, if not nil, returns the meter of a server, once for each.
	Meter func(server string) pipeline.Meter
	// Trace, if not nil, is told of each exchange with a server.
	Trace outbound.Trace
	// ScriptsOnly never uses functions.
	ScriptsOnly bool
}

// Open makes a store that counts by the script. It waits for no server: they are probed later, see [backend.Health].
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

// start starts the probes and the presence, once and not after Close.
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

// newScripted makes a store by a script on servers, which it closes in the end. It asks none before begin.
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

// newRatelimit makes a store of envoyproxy/ratelimit's keys on servers, which it closes in the end. It has no presence.
func newRatelimit(servers *topology.Servers, c Config, keys ratelimit.Keys) *Store {
	s := &Store{servers: servers, now: c.Now}
	p := &ratelimitCodec{store: s, keys: keys}
	s.Inspector, s.presence = p, newPresence(s)
	s.Pipeline = pipeline.New(servers, p, nil, c.Meter, c.Trace)
	return s
}

// Close is that of [backend.Counter].
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
