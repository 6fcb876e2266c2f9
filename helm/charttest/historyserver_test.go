package charttest

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	corev1 "k8s.io/api/core/v1"
)

// valuesOf reads values as they stand in a file.
func valuesOf(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// What serves the history reads the Redis that weir writes it to, by the same variables and Secrets, and has the descriptor
// files that weir has, if it has any. It is told nothing of how weir counts, answers or drains.
func TestTheHistoryServerReadsWhereWeirWrites(t *testing.T) {
	t.Parallel()
	const files = "/etc/weir/descriptors"
	shared := regexp.MustCompile("^(REDIS_|HISTORY_KEEP|LOG_|DEBUG_|ADMIN_|BACKEND_TYPE|ALGORITHM|MERGE_DOMAIN_CONFIG)")
	serving := valuesOf(t, "historyServer: {enabled: true}")
	for name, more := range map[string]string{"everything": "", "ha": "", "cluster-tls": "", "ring": "", "ratelimit-files": "",
		"ratelimit": "history: {redis: {urlSecret: history-redis}}"} { // whose limits come by xDS
		r := render(t, "weir", loader.MergeMaps(loader.MergeMaps(caseValues(t, name), serving), valuesOf(t, more)))
		server, history := r.pod(t, "server"), r.pod(t, "history")
		wantMounts(t, r.Objects[0], history)
		limits, args := volumeAt(t, server, files), []string{"history", "serve"}
		if limits != "" {
			args = append(args, "--config", files)
		}
		if got := history.Containers[0].Args; volumeAt(t, history, files) != limits || !slices.Equal(got, args) {
			t.Errorf("with ci/%s-values.yaml the history server is started with %q over the files %q, want %q and weir's, %q",
				name, got, volumeAt(t, history, files), args, limits)
		}
		of, is := envOf(server), envOf(history)
		for variable, value := range of {
			if got, has := is[variable]; (has || shared.MatchString(variable)) && got != value {
				t.Errorf("with ci/%s-values.yaml weir has %s=%s and the history server %q", name, variable, value, got)
			}
		}
		for _, variable := range []string{"GRPC_PORT", "RUNTIME_ROOT", "DRAIN_DELAY", "DATA_DIR", "ON_BACKEND_FAILURE", "HISTORY_QUERY"} {
			if _, has := is[variable]; has {
				t.Errorf("with ci/%s-values.yaml the history server has %s, which is weir's alone", name, variable)
			}
		}
	}
}

// envOf are the variables of a pod's first container.
func envOf(pod *corev1.PodSpec) map[string]string {
	all := make(map[string]string)
	for _, e := range pod.Containers[0].Env {
		all[e.Name] = e.Value
		if e.ValueFrom != nil {
			all[e.Name] = fmt.Sprint(e.ValueFrom)
		}
	}
	return all
}

// volumeAt is what a pod's first container has mounted at a path, empty if nothing.
func volumeAt(t *testing.T, pod *corev1.PodSpec, path string) string {
	t.Helper()
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			if m.MountPath == path && m.Name == v.Name {
				return string(toJSON(t, v))
			}
		}
	}
	return ""
}

// The sidecar writes all dashboards into one folder by their names, so these must be weir's own. A page that the values name
// is where their links lead.
func TestDashboardsAreInstalledAsTheyAre(t *testing.T) {
	t.Parallel()
	const usual = "http://127.0.0.1:6070"
	for page, want := range map[string]string{"": usual, ", page: 'https://weir.example/limits/'": "https://weir.example/limits"} {
		r := render(t, "weir", valuesOf(t, "monitoring: {namespace: grafana, dashboards: {enabled: true"+page+"}}"))
		i := slices.IndexFunc(r.Objects, func(o Object) bool { return o.At("metadata", "labels", "grafana_dashboard") == "1" })
		if i < 0 || r.Objects[i].Namespace() != "grafana" {
			t.Fatalf("Grafana's sidecar finds no dashboards in its namespace")
		}
		if size := len(toJSON(t, r.Objects[i].Tree)); size > 200<<10 {
			t.Errorf("the ConfigMap has %d bytes, and kubectl apply keeps it in an annotation of at most 256 KiB", size)
		}
		for name := range dashboards(t) {
			is, file := text(r.Objects[i].At("data", "weir-"+name)), readText(t, filepath.Join(dashboardFolder, name))
			if !reflect.DeepEqual(valuesOf(t, is), valuesOf(t, strings.ReplaceAll(file, usual, want))) {
				t.Errorf("weir-%s is not what %s is with the page %s:\n%s", name, name, want, is)
			}
		}
	}
}
