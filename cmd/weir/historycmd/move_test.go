package historycmd

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// sortedLines returns the lines of a text in order, as an export has none of its own.
func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// csvFile is a file with a text.
func csvFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHistoryMovesToRedisAndBack(t *testing.T) {
	source := someHistory(t)
	written, err := runHistory(t, "export", "--admin", source)
	if err != nil || !strings.HasPrefix(written, "domain,path,outcome,value,start,width,sum,peak\n") {
		t.Fatalf("weir history export prints %.300q, %v", written, err)
	}
	file := csvFile(t, written)
	redis := redistest.Single(t)
	t.Setenv("REDIS_HISTORY_URL", redis.Addr)
	t.Setenv("REDIS_TIMEOUT", "60s")
	got, err := runHistory(t, "import", file)
	if err != nil || !strings.HasPrefix(got, "Read ") || !strings.Contains(got, "into the Redis of REDIS_HISTORY_URL") {
		t.Fatalf("weir history import prints %q, %v", got, err)
	}
	for line, want := range map[string]string{
		"verify":                      ": each holds exactly what it ever counted.\n",
		"top --from 0 --by over":      "465  605,309  ████████████████████  shop user/path=/pay\n",
		"show --from 0 --domain mail": "total 492   lifetime 492   peak 12/min",
	} {
		if got, err := runHistory(t, strings.Fields(line)...); err != nil || !strings.Contains(got, want) {
			t.Errorf("after an import weir history %s prints %s (%v), want %q", line, got, err, want)
		}
	}
	if got, err = runHistory(t, "import", file); err != nil || !strings.Contains(got, "hits had been counted by an earlier run") {
		t.Errorf("a second import prints %q, %v", got, err)
	}
	head := strings.Join(strings.SplitAfterN(written, "\n", 4)[:3], "")
	if got, err = runHistory(t, "import", "--dry-run", file); err != nil || !strings.Contains(got, "would not be counted again.\nThat was a dry run") {
		t.Errorf("a dry run of a file that was imported prints %q, %v", got, err)
	}
	if got, err = runHistory(t, "import", "--dry-run", "--add", csvFile(t, head)); err != nil || !strings.Contains(got, "2 rows looked counted: the history held as many hits there.\nThat was a dry run: nothing was counted.") {
		t.Errorf("a dry run with --add of the head of a file that was imported prints %q, %v", got, err)
	}
	for _, args := range [][]string{{"import"}, {"import", "--dry-run"}} {
		if got, err = runHistory(t, append(args, csvFile(t, head))...); codeOf(err) != 2 || got != "" ||
			!strings.Contains(err.Error(), "weir history export --from '<time>'") || !strings.Contains(err.Error(), "take --add") {
			t.Errorf("the head of a file that was imported: %v prints %q, %v: it would count twice", args, got, err)
		}
	}
	lines, err := runHistory(t, "export", "--domain", "mail")
	if err != nil || !strings.Contains(lines, "\nmail,from,within,bob,") || strings.Contains(lines, "shop") {
		t.Errorf("the export of mail from Redis is %.300q, %v", lines, err)
	}
	moved, err := runHistory(t, "export")
	if err != nil {
		t.Fatal(err)
	}
	const bob = "\nmail,from,within,bob,"
	if a, b := strings.Count(written, bob), strings.Count(moved, bob); a != b || a == 0 {
		t.Errorf("%d buckets of bob were written, and %d moved", a, b)
	}
	redis.Kill()
	if got, err := runHistory(t, "verify"); codeOf(err) != 2 {
		t.Errorf("without a server, weir history verify prints %s and ends with %v, want 2: it has found out nothing", got, err)
	}
	t.Setenv("REDIS_HISTORY_URL", "")
	t.Setenv("DATA_DIR", filepath.Join(t.TempDir(), "data"))
	if got, err := runHistory(t, "import", csvFile(t, moved)); err != nil || !strings.Contains(got, "into DATA_DIR=") {
		t.Fatalf("the way back prints %q, %v", got, err)
	}
	back := historyPort(t, openHistory(t, os.Getenv("DATA_DIR")))
	if again, err := runHistory(t, "export", "--admin", back); err != nil || sortedLines(again) != sortedLines(moved) {
		t.Errorf("what came back is not what was moved (%v): %d and %d bytes", err, len(again), len(moved))
	}
}

// What a port answers is proven in server/admin.
func TestExportPrintsThePortsAnswer(t *testing.T) {
	port := someHistory(t)
	for query, args := range map[string][]string{
		"": nil, "?format=openmetrics": {"--format", "openmetrics"},
		"?domain=shop&path=user/path%3D/pay&outcome=within&from=1795100000&to=1795176180": {"--domain", "shop", "--path", "user/path=/pay",
			"--outcome", "within", "--from", "1795100000", "--to", "2026-11-20T12:03:00Z"},
		"?value=bob": {"--value", "bob"}, "?outcome=over": {"--outcome", "denied"},
	} {
		want, failed := weirtest.Get("http://" + port + "/api/v1/history/export" + query)
		got, err := runHistory(t, append([]string{"export", "--admin", port}, args...)...)
		if errors.Join(failed, err) != nil || sortedLines(got) != sortedLines(want) || strings.Count(want, "\n") < 3 {
			t.Errorf("weir history export %v prints %.300q (%v), and the port answers %.300q", args, got, err, want)
		}
	}
	for want, args := range map[string][]string{"no history of that": {"--path", "/pay"}, "--format": {"--format", "json"},
		"is not a time": {"--from", "never"}, "is not an outcome": {"--outcome", "limited"}, "must be before": {"--from", "-1h", "--to", "-2h"}} {
		got, err := runHistory(t, append([]string{"export", "--admin", port}, args...)...)
		if err == nil || strings.Count(got, "\n") > 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("weir history export %v prints %q, %v, want %q", args, got, err, want)
		}
	}
}

func TestTruncatedExportIsAnError(t *testing.T) {
	for name, end := range map[string]func(){
		"reading the answer of": func() { panic(http.ErrAbortHandler) }, "did not say that this is all": func() {},
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("hello\n"))
			_ = http.NewResponseController(w).Flush()
			end()
		}))
		defer other.Close()
		got, err := runHistory(t, "export", "--admin", other.Listener.Addr().String())
		if err == nil || codeOf(err) != 2 || !strings.Contains(err.Error(), "the export is not whole") ||
			!strings.Contains(err.Error(), name) || got != "hello\n" {
			t.Errorf("an export that ends early prints %q and ends with %v, want %q", got, err, name)
		}
	}
}

func TestImportChecksBeforeItCounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("DATA_DIR", dir)
	const header = "domain,path,outcome,value,start,width,sum,peak\n"
	good := strings.Repeat("shop,user,within,,1795219200,3600,7,\n", 500)
	for text, want := range map[string]string{
		header + good + "shop,user,within,,1795219200,3600,-7,\n": "history.csv: nothing was counted: line 502: column sum: \"-7\"",
		header:                      "history.csv: nothing was counted: it has no rows",
		header + good[:len(good)-1]: "history.csv: nothing was counted: the last line has no end",
	} {
		if got, err := runHistory(t, "import", csvFile(t, text)); err == nil || got != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("the import prints %q, %v; want %q", got, err, want)
		}
	}
	store := openHistory(t, dir)
	if found := historytest.All(t, store); len(found) > 0 {
		t.Errorf("a file with a bad row was counted: %v", found)
	}
	for args, want := range map[string]string{"/nowhere.csv": "no such file", dir: "is not a file"} {
		if _, err := runHistory(t, "import", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("weir history import %s ends with %v, want %q", args, err, want)
		}
	}
	if _, err := runHistory(t, "import", csvFile(t, header+good)); err == nil || !strings.Contains(err.Error(), "is in use by another weir: stop it first") {
		t.Errorf("an import into a file that is in use ends with %v", err)
	}
}
