package checkcmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// check runs weir check on one file and returns its exit code and what it printed.
func check(t *testing.T, file string, change func(*Command)) (int, string, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := &Command{Path: dir}
	if change != nil {
		change(c)
	}
	err := c.Run(terminal.Output{Out: &stdout, Err: &stderr})
	code, told := terminal.ExitCode(err)
	if !told {
		return code, stdout.String(), err.Error()
	}
	return code, stdout.String(), stderr.String()
}

const goodShop = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - {requests_per_unit: 10, unit: minute}
      - {requests_per_unit: 500, unit: hour, unit_multiplier: 2}
    descriptors:
      - {key: path, value: /pay, message: slow down, rate_limit: {requests_per_unit: 5, unit: minute, algorithm: fixed_window}}
`

func TestCheckPrintsPathsAndLimits(t *testing.T) {
	code, out, errs := check(t, goodShop, nil)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	for _, want := range []string{"user", "10/minute, 500/2hour", "user/path=/pay", "5/minute", "OK: 1 domain, 2 rules"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %q:\n%s", want, out)
		}
	}
}

func TestCheckNamesEveryFault(t *testing.T) {
	code, _, errs := check(t, strings.NewReplacer("10", "-1", "5, unit: minute", "5, unti: minute").Replace(goodShop), nil)
	if code != 1 || !strings.Contains(errs, "shop.yaml:5") || !strings.Contains(errs, "shop.yaml:8") || !strings.Contains(errs, "unti") {
		t.Errorf("exit code %d, %s; want 1 and both lines", code, errs)
	}
}

func TestStrictTreatsWarningsAsErrors(t *testing.T) {
	const dubious = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: minute}}\n"
	if code, _, errs := check(t, dubious, nil); code != 0 || !strings.Contains(errs, "warning: shop.yaml:3") {
		t.Errorf("exit code %d, %q; want 0 and a warning", code, errs)
	}
	if code, _, errs := check(t, dubious, func(c *Command) { c.Strict = true }); code != 1 || !strings.Contains(errs, "error: shop.yaml:3") {
		t.Errorf("with --strict: exit code %d, %q; want 1 and an error", code, errs)
	}
}

func TestCheckOfAMissingDirectory(t *testing.T) {
	code, _, errs := check(t, goodShop, func(c *Command) { c.Path = "/no/such/directory" })
	if code != 1 || !strings.Contains(errs, "/no/such/directory") {
		t.Errorf("exit code %d, %q; want 1 and the directory named", code, errs)
	}
}

func TestExplainShowsRuleLimitsAndKey(t *testing.T) {
	explain := func(d string) func(*Command) { return func(c *Command) { c.Explain = d } }
	code, out, errs := check(t, goodShop, explain("user=ann,path=/pay"))
	for _, want := range []string{"rule", "user/path=/pay (shop.yaml:8)", "5/minute  fixed_window of 1m, denied hits count too", `"4:shop4:user3:ann4:path4:/pay"`, `"slow down"`} {
		if !strings.Contains(out, want) {
			t.Errorf("exit code %d, %s: the explanation lacks %q:\n%s", code, errs, want, out)
		}
	}
	if _, out, _ := check(t, goodShop, explain("user=ann")); !strings.Contains(out, "sliding_window of 1m, buckets of 1s, 1m") {
		t.Errorf("the explanation lacks the buckets:\n%s", out)
	}
	exact := strings.Replace(goodShop, "algorithm: fixed_window", "algorithm: sliding_log", 1)
	if _, out, errs := check(t, exact, explain("user=ann,path=/pay")); !strings.Contains(out, "5/minute  sliding_log of 1m, exact to the microsecond\n") {
		t.Errorf("%sthe explanation lacks how exact a log is:\n%s", errs, out)
	}
	bucket := strings.Replace(goodShop, "algorithm: fixed_window", "algorithm: token_bucket, burst: 2", 1)
	if _, out, errs := check(t, bucket, explain("user=ann,path=/pay")); !strings.Contains(out, "5/minute  token_bucket of 1m, burst 2\n") {
		t.Errorf("%sthe explanation lacks the burst:\n%s", errs, out)
	}
	if code, out, _ := check(t, goodShop, explain("path=/pay")); code != 0 || !strings.Contains(out, "No rule applies") {
		t.Errorf("exit code %d:\n%s\nwant 0 and the reason why no rule applies", code, out)
	}
	if code, _, errs := check(t, goodShop, explain("user")); code != 2 || !strings.Contains(errs, "--explain") {
		t.Errorf("a descriptor without =: exit code %d, %q; want 2 and the flag named", code, errs)
	}
}
