package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// yearly is a weir with a year of history, which all tests that only look share. It starts with the first of them.
type yearly struct {
	once sync.Once
	*weir
	err error
	dir string
}

var year yearly

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
func ofAYear(t *testing.T) *weir {
	t.Helper()
	year.once.Do(func() { year.err = year.begin(t) })
	if year.err != nil {
		t.Fatalf("a weir with a year of history: %v", year.err)
	}
	return year.weir
}

// begin makes up a year that ends an hour before now: what was hit in the last minutes is what traffic sends, whatever
// time of the day it is.
func (y *yearly) begin(t *testing.T) (err error) {
	if y.dir, err = os.MkdirTemp("", "weir-year-"); err != nil {
		return err
	}
	until := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	days := "400"
	if testing.Short() { // enough for all tiers
		days = "120"
	}
	cmd := exec.Command(process.Weir(t), "history", "demo", "--days", days, "--until", until) // as long as a busy machine takes
	cmd.Env = []string{"HOME=" + y.dir, "DATA_DIR=" + filepath.Join(y.dir, "data")}
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("weir history demo: %w\n%s", err, printed)
	}
	files := shopOf(t)
	files["mail.yaml"], files["hostile.yaml"] = mailRules, hostileRules()
	if y.weir, err = serve(t, y.dir, files); err != nil {
		return err
	}
	return y.traffic()
}

// traffic sends real requests, so that there is a present beside the past, and waits until all of them are history.
func (y *yearly) traffic() error {
	for _, c := range []struct {
		times   int
		domain  string
		entries []string
	}{
		{30, "shop", []string{"user", "ann"}}, {20, "shop", []string{"user", "ann", "path", "/pay"}}, {40, "shop", []string{"route", "search"}},
		{20, "shop", []string{"remote_address", "192.0.2.1"}}, {25, "mail", []string{"tenant", "acme"}}, {15, "mail", []string{"tenant", hostile}},
		{15, hostile, []string{hostile, hostile}}, {15, hostile, []string{hostile, backwards}}, {15, hostile, []string{hostile, longName}},
		{15, hostile, []string{"path", hostile}}, {15, hostile, []string{backwards, backwards}}, {15, hostile, []string{longName, longName}},
		{15, hostile, []string{"nobody", "knows"}},
	} {
		for range c.times {
			if err := y.post(c.domain, c.entries...); err != nil {
				return err
			}
		}
	}
	return y.settled()
}

func (y *yearly) end() {
	if y.weir != nil {
		y.stop()
	}
	if y.dir != "" {
		os.RemoveAll(y.dir)
	}
}
