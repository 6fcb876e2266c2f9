package checkcmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// runOn runs the command in a directory that holds limits/shop.yaml, and returns its exit code and what it prints.
func runOn(t *testing.T, file string, c Command, stdin string) (int, string, string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.Mkdir("limits", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("limits", "shop.yaml"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err := c.Run(terminal.Output{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr})
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

// inConfigMap is a file as an entry of a ConfigMap, whose line 8 is the file's first.
func inConfigMap(file string) string {
	return "# rendered\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata:\n  shop.yaml: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(file), "\n", "\n    ") + "\n---\n"
}

func TestCheckReportsFaultsAndExitCode(t *testing.T) {
	const (
		dubious = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: minute}}\n"
		listed  = `domain: shop
descriptors:
  - key: user
    on_backend_failure: deny
    rate_limits: [{requests_per_unit: 10, unit: minute, name: user-minute}, {requests_per_unit: 500, unit: hour}]
  - {key: path, rate_limit: {unlimited: true, name: paths}}
`
		list = `shop
  user  10/minute user-minute, 500/hour (on_backend_failure: deny)
  path  unlimited paths
OK: 1 domain, 2 rules
`
		other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ring}\ndata: {url: 'a:1,b:2'}\n"
		weir  = `apiVersion: apps/v1
kind: Deployment
metadata: {name: weir}
spec: {template: {spec: {
  containers: [{args: [serve, --config, /c], env: [{name: ALGORITHM, value: token_bucket}, {name: ON_BACKEND_FAILURE, value: deny}]}],
  volumes: [{name: c, configMap: {name: limits}}]}}}
`
	)
	dir, file, stdin, ann := Command{Path: "limits"}, Command{Path: "limits/shop.yaml"}, Command{Path: "-"}, []string{"user=ann"}
	strict, explained := dir, file
	strict.Strict, explained.Explain = true, ann
	wrong, unit := strings.Replace(goodShop, "10,", "-1,", 1), strings.Replace(goodShop, "5, unit", "5, unti", 1)
	for _, tc := range []struct {
		promise     string
		file        string // limits/shop.yaml
		c           Command
		stdin       string
		code        int
		out, stderr string // what they hold
	}{
		{"policies and names are listed", listed, dir, "", 0, list, ""},
		{"a path has its value", goodShop, dir, "", 0, "user/path=/pay  5/minute (up to 10 in some minute)\nOK: 1 domain, 2 rules\n", ""},
		{"a fault has its line", unit, dir, "", 1, "", "error: shop.yaml:8: domain shop, user/path=/pay: unknown key \"unti\""},
		{"a warning is none", dubious, dir, "", 0, "OK: ", "warning: shop.yaml:3"},
		{"but with --strict", dubious, strict, "", 1, "", "error: shop.yaml:3"},
		{"one file", goodShop, file, "", 0, "OK: 1 domain, 2 rules", ""},
		{"the errors are counted", wrong, file, "", 1, "", "limits/shop.yaml: 1 error, 0 warnings\n"},
		{"standard input", "", stdin, wrong, 1, "", "error: <stdin>:5: domain shop, user: "},
		{"too much on it", "", stdin, strings.Repeat("#", 16<<20+1), 1, "", "larger than 16 MiB"},
		{"a manifest has its own lines", inConfigMap(goodShop) + other, explained, "", 0, "Rule user (limits/shop.yaml:10) applies.\nlimit ",
			"left out: ConfigMap ring (line 17): nothing in it names a domain\n"},
		{"and the names of its entries", inConfigMap(wrong) + other, file, "", 1, "", "error: limits/shop.yaml:12 (limits/shop.yaml): domain shop, user: "},
		{"weir does not read manifests", inConfigMap(goodShop) + other, dir, "", 1, "",
			"error: shop.yaml:3: this is a Kubernetes manifest, not a descriptor file: "},
		{"a container's algorithm holds", inConfigMap(goodShop) + weir, explained, "", 0, "10/minute  token_bucket", ""},
		{"its failure policy holds", inConfigMap(goodShop) + weir, explained, "", 0, "failure  deny, by ON_BACKEND_FAILURE: ", ""},
		{"its variables are judged", inConfigMap(goodShop) + strings.Replace(weir, "value: deny", "value: dney", 1), file, "", 2, "", "ON_BACKEND_FAILURE"},
	} {
		code, out, errs := runOn(t, tc.file, tc.c, tc.stdin)
		if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(errs, tc.stderr) || (errs == "") != (tc.stderr == "") {
			t.Errorf("%s: exit code %d\n%s%.500s\nwant %d, %q and %q", tc.promise, code, out, errs, tc.code, tc.out, tc.stderr)
		}
	}
	t.Setenv("ALGORITHM", "fixed_window")
	if _, out, errs := runOn(t, inConfigMap(goodShop)+weir, explained, ""); !strings.Contains(out, "10/minute  fixed_window") {
		t.Errorf("%s%s; want the algorithm that this environment sets, as somebody asks for it", out, errs)
	}
}
