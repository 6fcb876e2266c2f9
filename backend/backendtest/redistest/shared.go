package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// shared are the sets that the tests of this process share, by their type and options.
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
				set.Close()
			}
		}
	}()
	return m.Run()
}

// Shared returns servers of a REDIS_TYPE that all tests of the package share; the first that asks for them with these
// options starts them. A test leaves them as they were: it neither kills nor configures, and it uses keys that begin
// with its name, or Flush where it runs alone.
func Shared(t testing.TB, kind string, options ...Option) *Set {
	t.Helper()
	set, err := share(kind, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(set.Log())
		}
	})
	return set
}

func share(kind string, options []Option) (*Set, error) {
	var wanted settings
	for _, option := range options {
		option(&wanted)
	}
	name := fmt.Sprintf("%s %+v", kind, wanted)
	shared.Lock()
	if shared.dir == "" {
		shared.Unlock()
		return nil, errors.New("servers are shared only where TestMain calls redistest.Run: nobody would end them")
	}
	start := shared.sets[name]
	if start == nil {
		dir := filepath.Join(shared.dir, fmt.Sprint(len(shared.sets)))
		start = sync.OnceValues(func() (*Set, error) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			return StartSet(dir, kind, options...)
		})
		shared.sets[name] = start
	}
	shared.Unlock()
	return start()
}
