package charttest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// What values say stands where it belongs, and what they leave open is as the program that weir is started as has it.
func TestValuesReachTheirObjects(t *testing.T) {
	t.Parallel()
	var table struct {
		Paths, Sets any // which rows refer to

		Rows []struct {
			Promise, Build, Path, Has string

			HasNot string `yaml:"hasNot"`
			Values map[string]any
		}
	}
	readData(t, "reach.yaml", &table)
	for _, row := range table.Rows {
		var objects []Object
		var is string
		name, path, _ := strings.Cut(row.Path, " ")
		switch {
		case row.Build != "":
			objects = build(t, filepath.Join("testdata", row.Build))
		case name == "Deployment/cart":
			objects = renderBeside(t, map[string]any{"weir": row.Values}).Objects
		case name == "notes":
			is = render(t, "weir", row.Values).Notes
		default:
			is, objects = "null", render(t, "weir", row.Values).Objects
		}
		wants := []string{row.Has}
		for _, o := range objects {
			if o.Kind()+"/"+o.Name() != name {
				continue
			}
			at := o.At(strings.Fields(path)...)
			is = string(toJSON(t, at))
			if variables, _ := at.([]any); strings.HasSuffix(path, " env") { // NAME=value, each in a line
				is, wants = "\n", strings.Fields(row.Has)
				for i, want := range wants {
					wants[i] = "\n" + want + "\n"
				}
				for _, v := range variables {
					is += fmt.Sprint(reach(v, "name"), "=", reach(v, "value"), "\n")
				}
			}
		}
		for _, has := range wants {
			if !strings.Contains(is, has) || row.HasNot != "" && strings.Contains(is, row.HasNot) {
				t.Errorf("%s: %s is %s, want %s in it, and no %q, with %s",
					row.Promise, row.Path, is, has, row.HasNot, toJSON(t, row.Values))
			}
		}
	}
	if len(table.Rows) < 80 {
		t.Errorf("reach.yaml has only %d rows: this test reads it wrongly", len(table.Rows))
	}
}

// readData reads a file of testdata into a value, which must know every field.
func readData(t *testing.T, name string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(readText(t, filepath.Join("testdata", name))))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestWrongValuesAreRefusedWithASentence(t *testing.T) {
	t.Parallel()
	var refused map[string]struct {
		Release, Says string
		Values        map[string]any
	}
	readData(t, "refused.yaml", &refused)
	for promise, row := range refused {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			_, err := tryRender(t, cmp.Or(row.Release, "weir"), row.Values)
			if err == nil || row.Says == "" || !strings.Contains(err.Error(), row.Says) {
				t.Errorf("got %v; want a refusal that says %q", err, row.Says)
			}
		})
	}
	if len(refused) < 60 {
		t.Errorf("refused.yaml has only %d rows: this test reads it wrongly", len(refused))
	}
}

// leftOut are the variables that no value sets, with why.
var leftOut = map[string]string{
	"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": tuning, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": tuning,
	"XDS_CLIENT_BACKOFF_MAX_INTERVAL": tuning, "XDS_CLIENT_BACKOFF_RANDOM_FACTOR": tuning,
	"XDS_CLIENT_BACKOFF_JITTER": tuning, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": tuning,
	"DD_ENV": datadog, "DD_SERVICE": datadog, "DD_VERSION": datadog, "DD_ENTITY_ID": datadog,
	"REDIS_AUTH": password, "REDIS_PERSECOND_AUTH": password,
	"REDIS_HISTORY_URL": "history.redis.urlSecret is a file",
	"REDIS_SOCKET_TYPE": byAddress, "REDIS_PERSECOND_SOCKET_TYPE": byAddress,
	"RUNTIME_SUBDIRECTORY":            "the chart says all of the path in RUNTIME_ROOT, or --config",
	"SANITIZE_DESCRIPTOR_METRIC_DOTS": "it is for a mapping that comes from envoyproxy/ratelimit; extraEnv sets it",
	"DISABLE_STATS":                   "each sink has a value that turns it on",
	"TRACING_EXPORTER_PROTOCOL":       oneCollector, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": oneCollector,
	"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": oneCollector,
	"OTEL_SDK_DISABLED":                   "each signal has a value that turns it on",
	"USE_DOG_STATSD_MOGRIFIERS":           "what it names are more variables, which extraEnv must set anyway",
}

const (
	oneCollector = "one protocol is for all; extraEnv sets others"
	tuning       = "it tunes what works without it; extraEnv sets it"
	datadog      = "Datadog sets it by a label of the pod, or extraEnv does"
	password     = "a password in values is a password in every copy of them; redis.auth.existingSecret is a file"
	byAddress    = "it follows from the address"
)

// rendered are the variables that weir gets, with a values file that sets them.
func rendered(t *testing.T) map[string]string {
	t.Helper()
	releases := map[string][]Object{"sidecar": renderBeside(t, nil).Objects}
	for _, name := range caseNames(t) {
		releases["ci/"+name+"-values.yaml"] = render(t, "weir", caseValues(t, name)).Objects
	}
	names := make(map[string]string)
	for where, objects := range releases {
		for _, o := range ofKind(objects, "Deployment", "CronJob") {
			for _, m := range variableLine.FindAllStringSubmatch(o.Text, -1) {
				names[m[1]] = where
			}
		}
	}
	return names
}

// samplesOfRatelimit are the samples in k8s in which weir takes the place of envoyproxy/ratelimit. What their users run
// is run in cmd/weir/dropin; the flag of the last, in cmd/weir/e2e.
var samplesOfRatelimit = []string{"istio/rate-limit-service.yaml", "envoy-gateway/drop-in.yaml", "envoy-ai-gateway/ratelimit.yaml"}

var variableLine = regexp.MustCompile(`name: ([A-Z][A-Z0-9_]+)`)

func TestValuesCanSetEveryVariable(t *testing.T) {
	t.Parallel()
	listed, set := documentedVariables(t), rendered(t)
	for _, name := range listed {
		if set[name] == "" && leftOut[name] == "" {
			t.Errorf("ENVIRONMENT.md tells operators of %s, and no value of the chart sets it in any ci/*-values.yaml", name)
		}
		if set[name] != "" && leftOut[name] != "" {
			t.Errorf("%s is set by %s, though it is said to be left out: %s", name, set[name], leftOut[name])
		}
	}
	for _, sample := range samplesOfRatelimit { // set them, or say in a comment that one can
		for _, m := range variableLine.FindAllStringSubmatch(readText(t, filepath.Join(k8sDir, sample)), -1) {
			set[m[1]] = sample
		}
	}
	document := readText(t, filepath.Join(root, "cmd", "weir", "ENVIRONMENT.md")) // those without effect, too
	for name, where := range set {
		if !strings.Contains(document, "`"+name+"`") && name != "GOMEMLIMIT" && name != "SSL_CERT_FILE" {
			t.Errorf("%s sets %s, which weir does not read", where, name)
		}
	}
}

// documentedVariables are those of the tables in cmd/weir/ENVIRONMENT.md, the first cells of their rows.
func documentedVariables(t *testing.T) (names []string) {
	t.Helper()
	document := readText(t, filepath.Join(root, "cmd", "weir", "ENVIRONMENT.md"))
	for _, row := range regexp.MustCompile("(?m)^\\| (`[A-Z][^|]*) \\|.*\\|.*\\|").FindAllStringSubmatch(document, -1) {
		for _, m := range inBackticks.FindAllStringSubmatch(row[1], -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 30 {
		t.Fatalf("found only %d variables in ENVIRONMENT.md: this test looks in the wrong place", len(names))
	}
	return names
}

// Who comments out all that stands below a key leaves it empty, and Helm then takes its defaults away.
func TestEmptyKeyRendersOrIsRefused(t *testing.T) {
	t.Parallel()
	paths := keysOf(defaults(t), nil)
	if len(paths) < 150 {
		t.Fatalf("values.yaml has only %d keys: this test looks in the wrong place", len(paths))
	}
	for _, path := range paths {
		key := strings.Join(path, ".")
		t.Run(key, func(t *testing.T) {
			wantNoHoles(t, key, loader.MergeMaps(valuesOf(t, "redis: {addresses: ['redis:6379']}"), under(path, nil)))
		})
	}
}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	return valuesOf(t, readText(t, filepath.Join(chartDir, "values.yaml")))
}

var holes = regexp.MustCompile(`(?m)^.*(: null|nil>.*|%!.*)$`)

// wantNoHoles wants values whose key is empty to render with nothing missing, or to be refused with a sentence.
func wantNoHoles(t *testing.T, key string, values map[string]any) {
	t.Helper()
	r, err := tryRender(t, "weir", values)
	if err != nil {
		if !strings.Contains(err.Error(), key+" is empty") {
			t.Errorf("a template stumbles, and does not say over what: %v", err)
		}
		return
	}
	for _, o := range append(r.Objects, Object{r.Notes, map[string]any{"kind": "notes"}}) {
		for _, hole := range holes.FindAllString(o.Text, -1) {
			if line := strings.TrimSpace(hole); line != "resources: null" && line != "securityContext: null" { // these say: none
				t.Errorf("%s says %q", o, line)
			}
		}
	}
}

// keysOf are the paths of all keys in a tree, those above before those below.
func keysOf(tree map[string]any, above []string) (paths [][]string) {
	for key, value := range tree {
		path := append(slices.Clone(above), key)
		paths = append(paths, path)
		if below, isMap := value.(map[string]any); isMap {
			paths = append(paths, keysOf(below, path)...)
		}
	}
	return paths
}

// under is a tree with a value at a path.
func under(path []string, value any) map[string]any {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value.(map[string]any)
}
