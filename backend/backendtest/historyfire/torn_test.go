package historyfire

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// TestATornAppendOnlyFileIsMadeGoodByTheWriters kills a server and cuts its append-only file at a random byte, as a
// machine's crash does. What was acknowledged and is gone its writers send again. Redis before the fix of 2026 leaves
// the beginning of a torn transaction open, so that the next restart but one counts it with what was written later,
// unless the file is written anew before: the stores ask for that.
func TestATornAppendOnlyFileIsMadeGoodByTheWriters(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	f := newFire(t, site{URL: server.Addr}, 13)
	store := f.opened()
	const rounds = 2 // whatever -kills is: each tear must have a chance to hit an acknowledged batch
	torn := 0
	for range rounds {
		f.burn(round{survivors: 2, jobKills: *kills * 3 / 100 / rounds, store: store, disturb: func() {
			for range 2 {
				f.awaitSteps(int64(300 + f.chance(200))) // more than is torn off is of this round's writers
				file := f.appendOnlyFile(server)
				server.Kill()
				torn += f.tear(file)
				server.Restart(t)
				f.count("redis, its file torn")
				f.rewritten(server)
				f.awaitSteps(100)
				server.Restart(t) // this one would execute what the torn end left open
				f.count("redis, restarted with its file")
				f.rewritten(server)
			}
		}})
	}
	f.finish(store)
	t.Logf("%d bytes were torn off", torn)
	if f.resent == 0 {
		t.Error("no batch was sent again: nothing that was acknowledged was torn off, and this test has shown nothing")
	}
}

// appendOnlyFile is the file that a server appends to.
func (f *fire) appendOnlyFile(server *redistest.Server) string {
	dir, err := server.Client().ConfigGet(context.Background(), "dir").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, pattern := range []string{"appendonlydir/*.incr.aof", "appendonly.aof"} { // since 7.0, and before
		if found, _ := filepath.Glob(filepath.Join(dir["dir"], pattern)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	f.t.Fatalf("no append-only file in %s", dir["dir"])
	return ""
}

// tear cuts some bytes off the end of a file.
func (f *fire) tear(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		f.t.Fatal(err)
	}
	n := min(int(info.Size()), 2000+f.chance(8000))
	if err := os.Truncate(path, info.Size()-int64(n)); err != nil {
		f.t.Fatal(err)
	}
	return n
}
