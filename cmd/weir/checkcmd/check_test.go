package checkcmd

import (
	"strings"
	"testing"
)

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

func TestCheckListsPoliciesAndNames(t *testing.T) {
	_, out, errs := check(t, `domain: shop
descriptors:
  - key: user
    on_backend_failure: deny
    rate_limits: [{requests_per_unit: 10, unit: minute, name: user-minute}, {requests_per_unit: 500, unit: hour}]
  - {key: path, rate_limit: {unlimited: true, name: paths}}
`, nil)
	const want = `shop
  user  10/minute user-minute, 500/hour (on_backend_failure: deny)
  path  unlimited paths
OK: 1 domain, 2 rules
`
	if out != want || errs != "" {
		t.Errorf("got\n%s%s\nwant\n%s", out, errs, want)
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
