package redis

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// types are all types of Redis.
var types = []topology.Type{topology.Single, topology.Sentinel, topology.Cluster, topology.Ring}

// typesBut are all types, and in the short form those that are named.
func typesBut(short ...topology.Type) []topology.Type {
	if testing.Short() {
		return short
	}
	return types
}

// oldest is the release of Redis that has no functions.
const oldest = "redis-6.2"

// fleet is servers of a type and a release, "" for that on PATH, and the command by which they are called.
type fleet struct {
	kind          topology.Type
	release, mode string
}

func (f fleet) String() string { return fmt.Sprint(f.kind, " ", f.release, " by ", f.mode) }

// fleets are each type, each release and each way with some of the others, or with -every all with all.
func fleets(t *testing.T) []fleet {
	old, valkey := redistest.Releases(t)[0], slices.Max(redistest.Releases(t))
	if !*every {
		return []fleet{
			{topology.Single, "", "fcall"}, {topology.Sentinel, "", "fcall"}, {topology.Cluster, "", "evalsha"}, {topology.Ring, "", "evalsha"},
			{topology.Cluster, old, "evalsha"}, {topology.Single, valkey, "fcall"},
		}
	}
	var all []fleet
	for _, kind := range types {
		all = append(all, fleet{kind, "", "fcall"}, fleet{kind, "", "evalsha"})
	}
	for _, kind := range []topology.Type{topology.Single, topology.Cluster} {
		all = append(all, fleet{kind, old, "evalsha"}, fleet{kind, valkey, "fcall"}, fleet{kind, valkey, "evalsha"})
	}
	return all
}

// reach gives the fleet's servers.
func (f fleet) reach(t *testing.T) topology.Config {
	if f.release == "" {
		return on(t, f.kind)
	}
	return start(t, f.kind, redistest.WithRelease(f.release))
}

// open opens a store that calls the servers in the fleet's way. Where they have no functions it finds that out.
func (f fleet) open(t *testing.T, c topology.Config, now *atomic.Int64) *Store {
	t.Helper()
	code := newScript
	if f.mode == "evalsha" && f.release != oldest {
		code = scriptOnly
	}
	s := openedWith(t, c, now, code())
	client, err := s.servers.Owner([]byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if mode, err := s.script.Mode(t.Context(), client); err != nil || mode.Command != f.mode {
		t.Fatalf("the servers are called by %+v, %v; want %s", mode, err, f.mode)
	}
	return s
}

func newScript() *pipeline.Script { return new(Config).newScript() }

// scriptOnly is the script without its library.
func scriptOnly() *pipeline.Script { return (&Config{ScriptsOnly: true}).newScript() }

// start starts servers of a type for a test, and returns how they are reached.
func start(t *testing.T, kind topology.Type, options ...redistest.Option) topology.Config {
	return topology.Config{Type: kind, URL: redistest.Start(t, string(kind), options...).URL}
}

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// on returns how the servers of a type are reached that the tests of this package share. Tests on them have keys of
// their own, and leave the servers as they are. No node of a ring ever counts as lost, however slow the machine is: its
// keys would be counted elsewhere meanwhile.
func on(t *testing.T, kind topology.Type) topology.Config {
	t.Helper()
	return topology.Config{Type: kind, URL: redistest.Shared(t, string(kind)).URL, Fixed: true}
}

// opened is a store on a clock of its own, nil for the servers', whose servers can be used.
func opened(t testing.TB, c topology.Config, now *atomic.Int64) *Store {
	t.Helper()
	return openedWith(t, c, now, newScript())
}

// openedWith is opened for a version of the script.
func openedWith(t testing.TB, c topology.Config, now *atomic.Int64, code *pipeline.Script) *Store {
	t.Helper()
	s, err := open(configOf(c, now), code)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	process.Eventually(t, "the servers can be used", s.ProbeErr)
	return s
}

// configOf has servers that take as long as a machine may that stands still, where a test says nothing else.
func configOf(c topology.Config, now *atomic.Int64) Config {
	if c.Timeout == 0 {
		c.Timeout = ample
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	config := Config{Redis: c}
	if now != nil {
		config.Now = func() time.Time { return time.UnixMicro(now.Load()) }
	}
	return config
}

// told returns a store with its log, whose servers need not be there.
func told(t *testing.T, c topology.Config) (*Store, *process.Output) {
	t.Helper()
	log := new(process.Output)
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := Open(configOf(c, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s, log
}

// ample is how long what must be answered has for it: it only ends a test that hangs.
const ample = time.Minute

// ofRatelimit returns a key of envoyproxy/ratelimit on its way to a store.
func ofRatelimit(stem string) []byte { return append([]byte{0}, stem...) }

// openedMixed is a store of both kinds of keys, on a clock of its own; nil: the process's.
func openedMixed(t testing.TB, c topology.Config, now *atomic.Int64) byFormat {
	t.Helper()
	m, err := OpenRatelimit(configOf(c, now), ratelimit.Keys{Jitter: 300})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	process.Eventually(t, "the servers can be used", m.ProbeErr)
	return m.(byFormat)
}

// hourly returns a limit of n an hour, as envoyproxy/ratelimit has it.
func hourly(t testing.TB, n uint64) []descriptors.Limit {
	t.Helper()
	return []descriptors.Limit{backendtest.NewLimit(t, n, descriptors.Hour, 1, descriptors.FixedWindow, 0)}
}

// connect connects to the servers of a configuration until the end of the test.
func connect(t testing.TB, c topology.Config) *topology.Servers {
	t.Helper()
	c.Log, c.Timeout = slog.New(slog.DiscardHandler), cmp.Or(c.Timeout, ample)
	servers, err := topology.Connect(c, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	return servers
}

// ownerOf returns the client of the server that has all keys.
func ownerOf(t testing.TB, c topology.Config) *goredis.Client {
	t.Helper()
	client, err := connect(t, c).Owner(nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// connectMapped is connect for servers that know at once who owns which slots.
func connectMapped(t *testing.T, c topology.Config) *topology.Servers {
	t.Helper()
	servers := connect(t, c)
	if _, err := servers.All(t.Context()); err != nil {
		t.Fatalf("asking who owns which slots: %v", err)
	}
	return servers
}

// storeAt returns a store of the plain script that knows which servers there are.
func storeAt(t *testing.T, c topology.Config) *Store {
	t.Helper()
	return storeOn(t, connectMapped(t, c))
}
