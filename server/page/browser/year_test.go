package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// outliving is a test that leaves its programs and folders to the others, until all have ended.
type outliving struct{ testing.TB }

var undo []func() // what such a test has left

func (outliving) Cleanup(f func()) { undo = append(undo, f) }

func (o outliving) TempDir() string {
	dir, err := os.MkdirTemp("", "weir-year-")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Failed is false: by then nobody hears what the programs have printed.
func (outliving) Failed() bool { return false }

func endOutliving() {
	for _, f := range slices.Backward(undo) {
		f()
	}
}

// year is a weir with a year of history, which all tests that only look share. It starts with the first of them.
var year struct {
	once sync.Once
	*weirtest.Weir
}

// hostile is a name as an attacker sends it.
const hostile = `<img src=x onerror=alert(1)>`

// backwards would turn the text around it, and hide a part.
const backwards = "\u202ekcatta\u202c\u200b\u2066"

var longName = strings.Repeat("a-very-long-name-", 60)

// hostileRules are of a domain and keys that would run a script if they were shown as anything but text.
func hostileRules() string {
	var out strings.Builder
	fmt.Fprintf(&out, "domain: %q\ndescriptors:\n", hostile)
	for _, key := range []string{hostile, backwards, longName} {
		fmt.Fprintf(&out, "  - key: %q\n    detailed_metric: true\n    rate_limit: {requests_per_unit: 10, unit: minute, name: %q}\n", key, hostile)
	}
	fmt.Fprintf(&out, "  - key: path\n    value: %q\n    rate_limit: {requests_per_unit: 10, unit: minute}\n", hostile)
	return out.String()
}

const mailRules = `domain: mail
descriptors:
  - key: tenant
    value_to_metric: true
    rate_limit: {requests_per_unit: 600, unit: hour}
  - key: recipient
    quota_mode: true
    rate_limit: {requests_per_unit: 5000, unit: day}
`

// ofAYear returns the weir with a year of history.
func ofAYear(t *testing.T) *weirtest.Weir {
	t.Helper()
	year.once.Do(func() { year.Weir = beginYear(outliving{t}) })
	if year.Weir == nil {
		t.Fatal("there is no weir with a year of history: the first test that asked for it says why")
	}
	return year.Weir
}

// beginYear makes up a year that ends an hour before now: what was hit in the last minutes is what is sent here, whatever
// time of the day it is.
func beginYear(t testing.TB) *weirtest.Weir {
	t.Helper()
	until := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	days, data := "400", "DATA_DIR="+filepath.Join(t.TempDir(), "data")
	if testing.Short() { // enough for all tiers
		days = "120"
	}
	cmd := exec.Command(process.Weir(t), "history", "demo", "--days", days, "--until", until) // as long as a busy machine takes
	cmd.Env = []string{data}
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("weir history demo: %v\n%s", err, printed)
	}
	files := shopOf(t)
	files["mail.yaml"], files["hostile.yaml"] = mailRules, hostileRules()
	w := serve(t, files, data)
	of := func(times int, domain string, entries ...string) hits { return hits{times, domain, entries} }
	send(t, w, of(30, "shop", "user", "ann"), of(20, "shop", "user", "ann", "path", "/pay"), of(40, "shop", "route", "search"),
		of(20, "shop", "remote_address", "192.0.2.1"), of(25, "mail", "tenant", "acme"), of(15, "mail", "tenant", hostile),
		of(15, hostile, hostile, hostile), of(15, hostile, hostile, backwards), of(15, hostile, hostile, longName),
		of(15, hostile, "path", hostile), of(15, hostile, backwards, backwards), of(15, hostile, longName, longName),
		of(15, hostile, "nobody", "knows"))
	return w
}
