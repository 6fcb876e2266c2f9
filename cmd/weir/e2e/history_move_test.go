package e2e_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// movedRows is how many rows a test's file has: hours of some rules, without peaks, so that each is many late hits.
const movedRows = 1000

// someCSV writes a file of hours that end some days ago, and returns how many hits it has.
func someCSV(t *testing.T) (file string, hits int) {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain,path,outcome,start,width,sum\n")
	last := time.Now().Add(-72 * time.Hour).Truncate(time.Hour).Unix()
	for i := range movedRows {
		n := 50 + i%200
		hits += n
		fmt.Fprintf(&text, "shop,rule=%d,within,%d,3600,%d\n", i%10, last-int64(i/10)*3600, n)
	}
	file = filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, hits
}

// Killed in the middle, an import is run again and counts each hit once; so it does in either store.
func TestAnImportThatIsKilledAndRunAgainCountsEachHitOnce(t *testing.T) {
	t.Parallel()
	file, hits := someCSV(t)
	for name, start := range map[string]func(t *testing.T) (env string, begun func() bool){
		"Redis": func(t *testing.T) (string, func() bool) {
			server := redistest.Single(t)
			return "REDIS_HISTORY_URL=" + server.Addr, func() bool {
				n, err := server.Client().DBSize(t.Context()).Result()
				return err == nil && n > 600 // 256 partitions are probed first
			}
		},
		"File": func(t *testing.T) (string, func() bool) {
			dir := t.TempDir()
			return "DATA_DIR=" + dir, func() bool {
				about, err := os.Stat(filepath.Join(dir, "history.db"))
				return err == nil && about.Size() > 64<<10
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, begun := start(t)
			importing := func() *process.Process {
				return process.Start(t, "weir history import", []string{env}, weirBinary, "history", "import", file)
			}
			first := importing()
			for first.Ended() == nil && !begun() {
				time.Sleep(time.Millisecond)
			}
			first.Kill()
			if printed := first.Log.String(); printed != "" {
				t.Logf("the import had ended before it was killed, and printed %s", printed)
			}
			for _, want := range []string{"had been counted by an earlier run", "nothing has changed"} {
				again := importing()
				if code := again.ExitCode(t); code != 0 || !strings.Contains(again.Log.String(), want) {
					t.Fatalf("the import that was run again ended with %d and printed\n%s\nwant %q in it", code, again.Log.String(), want)
				}
			}
			total, code := movedTotal(t, env)
			if total != hits || code != 0 {
				t.Errorf("%d hits are exported and weir history verify ends with %d, want %d hits, each once, and 0", total, code, hits)
			}
		})
	}
}

// movedTotal returns how many hits the history of an environment holds, and what weir history verify ends with.
func movedTotal(t *testing.T, env string) (total, code int) {
	t.Helper()
	var ask []string
	if strings.HasPrefix(env, "DATA_DIR=") {
		port := process.Port(t)
		serve := process.Start(t, "weir serve", []string{env, "GRPC_PORT=0", "PORT=0", fmt.Sprint("DEBUG_PORT=", port), "DEBUG_HOST=127.0.0.1"},
			weirBinary, "serve", "--config", t.TempDir())
		ask = []string{"--admin", fmt.Sprint("127.0.0.1:", port)}
		serve.AwaitReady(t, func() error { return wantStatus(fmt.Sprint("http://127.0.0.1:", port, "/livez"), 200) })
	}
	verify := process.Start(t, "weir history verify", []string{env}, weirBinary, append([]string{"history", "verify"}, ask...)...)
	code = verify.ExitCode(t)
	export := exec.Command(weirBinary, append([]string{"history", "export"}, ask...)...)
	export.Env = []string{env}
	written, err := export.Output()
	if err != nil {
		t.Fatalf("weir history export: %v", err)
	}
	for line := range strings.Lines(string(written)) {
		var sum int
		if cells := strings.Split(line, ","); len(cells) == 8 && cells[0] == "shop" {
			if _, err := fmt.Sscan(cells[6], &sum); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			total += sum
		}
	}
	return total, code
}

// Somebody who only wants the first lines is told nothing more.
func TestAnExportWhoseReaderGoesEndsQuietly(t *testing.T) {
	t.Parallel()
	file, _ := someCSV(t)
	server := redistest.Single(t)
	env := "REDIS_HISTORY_URL=" + server.Addr
	imported := process.Start(t, "weir history import", []string{env}, weirBinary, "history", "import", file)
	if code := imported.ExitCode(t); code != 0 {
		t.Fatalf("the import ended with %d", code)
	}
	export := exec.Command(weirBinary, "history", "export")
	export.Env = []string{env}
	var told strings.Builder
	export.Stderr = &told
	out, err := export.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := export.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(hang, func() { _ = export.Process.Kill() })
	_ = export.Wait()
	how, _ := export.ProcessState.Sys().(syscall.WaitStatus)
	if !late.Stop() || !how.Signaled() || how.Signal() != syscall.SIGPIPE || told.String() != "" {
		t.Errorf("an export whose reader goes ends with %v and prints %q, want that SIGPIPE ends it in silence", export.ProcessState, told.String())
	}
}
