package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// someCSV writes a file of hours that end some days ago, without peaks, so that each is many late hits, and returns how
// many hits it has.
func someCSV(t *testing.T) (file string, hits int) {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain,path,outcome,value,start,width,sum,peak\n")
	last := time.Now().Add(-72 * time.Hour).Truncate(time.Hour).Unix()
	for i := range 600 {
		n := 50 + i%200
		hits += n
		fmt.Fprintf(&text, "shop,rule=%d,within,,%d,3600,%d,\n", i%10, last-int64(i/10)*3600, n)
	}
	file = filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, hits
}

// Killed in the middle, an import is run again and counts each hit once; so it does in either store.
func TestKilledImportCountsEachHitOnce(t *testing.T) {
	t.Parallel()
	file, hits := someCSV(t)
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Single(t)
		env := []string{"REDIS_HISTORY_URL=" + server.Addr, weirtest.PatientRedis}
		importTwice(t, file, env, func() bool {
			n, err := server.Client().DBSize(t.Context()).Result()
			return err == nil && n > 100
		})
		wantMoved(t, hits, func(args ...string) (string, int) { return process.Command(t, env, process.Weir(t), args...) })
	})
	t.Run("File", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		importTwice(t, file, []string{"DATA_DIR=" + dir}, func() bool {
			about, err := os.Stat(filepath.Join(dir, "history.db"))
			return err == nil && about.Size() > 64<<10
		})
		w := weirtest.Serve(t, largePlan, "DATA_DIR="+dir)
		wantMoved(t, hits, func(args ...string) (string, int) { return w.Command(t, args...) })
	})
}

// importTwice kills an import once it has begun to count, and runs it again to its end, and once more.
func importTwice(t *testing.T, file string, env []string, begun func() bool) {
	t.Helper()
	first := process.Start(t, "weir history import", env, process.Weir(t), "history", "import", file)
	for first.Ended() == nil && !begun() {
		time.Sleep(time.Millisecond)
	}
	first.Kill()
	for range 2 {
		const want = "had been counted by an earlier run"
		if printed, code := process.Command(t, env, process.Weir(t), "history", "import", file); code != 0 || !strings.Contains(printed, want) {
			t.Fatalf("the import that was run again ended with %d and printed\n%s\nwant %q in it", code, printed, want)
		}
	}
}

// wantMoved wants a history that is exact and holds so many hits.
func wantMoved(t *testing.T, want int, weir func(args ...string) (string, int)) {
	t.Helper()
	if printed, code := weir("history", "verify"); code != 0 {
		t.Errorf("weir history verify ends with %d and prints %s", code, printed)
	}
	total := 0
	written, code := weir("history", "export")
	for line := range strings.Lines(written) {
		var sum int
		if cells := strings.Split(line, ","); len(cells) == 8 && cells[0] == "shop" {
			if _, err := fmt.Sscan(cells[6], &sum); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			total += sum
		}
	}
	if total != want || code != 0 {
		t.Errorf("weir history export ends with %d and has %d hits, want %d, each once", code, total, want)
	}
}
