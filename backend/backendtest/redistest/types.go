package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Start starts servers of a REDIS_TYPE, until the test ends.
func Start(t testing.TB, kind string, options ...Option) *Set {
	t.Helper()
	return keep(t, func(dir string) (*Set, error) { return startSet(dir, kind, newSettings(t, options)) })
}

// Set is servers of one REDIS_TYPE.
type Set struct {
	URL      string       // as REDIS_URL names them
	Servers  []*Server    // all that hold keys, replicas among them
	Cluster  *ClusterSet  // nil for another type
	Sentinel *SentinelSet // nil for another type

	all servers // sentinels among them
}

// ringNodes is how many servers a ring of Start has.
const ringNodes = 3

// startSet starts servers of a REDIS_TYPE, whose files are in dir.
func startSet(dir, kind string, s settings) (*Set, error) {
	switch kind {
	case "single":
		server, err := startServer(dir, "redis", s)
		if err != nil {
			return nil, err
		}
		return &Set{URL: server.Addr, Servers: []*Server{server}, all: servers{server}}, nil
	case "sentinel":
		set, err := startSentinel(dir, s)
		if err != nil {
			return nil, err
		}
		url := set.Master + "," + strings.Join(set.Addrs(), ",")
		return &Set{URL: url, Servers: set.Nodes, Sentinel: set, all: set.all()}, nil
	case "cluster":
		c, err := startCluster(dir, s)
		if err != nil {
			return nil, err
		}
		return &Set{URL: strings.Join(c.Addrs(), ","), Servers: c.Nodes, Cluster: c, all: c.Nodes}, nil
	case "ring":
		return startRing(dir, ringNodes, s)
	}
	return nil, fmt.Errorf("there is no REDIS_TYPE %q", kind)
}

func startRing(dir string, n int, s settings) (*Set, error) {
	nodes, err := startServers(dir, "node", n, s)
	if err != nil {
		return nil, err
	}
	return &Set{URL: strings.Join(addrs(nodes), ","), Servers: nodes, all: nodes}, nil
}

// Flush empties all servers. Tests that run beside others use keys of their own instead.
func (s *Set) Flush(t testing.TB) {
	t.Helper()
	for _, server := range s.Servers {
		err := server.client.FlushAll(t.Context()).Err()
		if err != nil && !strings.HasPrefix(err.Error(), "READONLY") { // a replica, which follows
			t.Fatal(err)
		}
	}
}

// shared are the sets that the tests of this process share, by their type.
var shared struct {
	sync.Mutex
	dir  string // empty outside Run
	sets map[string]func() (*Set, error)
}

// Run runs the tests of a package that share servers, ends these, and returns the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }
func Run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "before the tests:", err)
		return 1
	}
	shared.dir, shared.sets = dir, make(map[string]func() (*Set, error))
	defer os.RemoveAll(dir)
	defer func() {
		for _, started := range shared.sets {
			if set, err := started(); err == nil {
				set.all.Close()
			}
		}
	}()
	return m.Run()
}

// Shared returns servers of a REDIS_TYPE that all tests of the package share; the first that asks for them starts them.
// A test leaves them as they were: it neither kills nor configures, and it uses keys that begin with its
// name, or Flush where it runs alone.
func Shared(t testing.TB, kind string) *Set {
	t.Helper()
	set, err := share(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(set.all.Log())
		}
	})
	return set
}

func share(kind string) (*Set, error) {
	shared.Lock()
	if shared.dir == "" {
		shared.Unlock()
		return nil, errors.New("servers are shared only where TestMain calls redistest.Run: nobody would end them")
	}
	start := shared.sets[kind]
	if start == nil {
		dir := filepath.Join(shared.dir, kind)
		start = sync.OnceValues(func() (*Set, error) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			return startSet(dir, kind, settings{})
		})
		shared.sets[kind] = start
	}
	shared.Unlock()
	return start()
}
