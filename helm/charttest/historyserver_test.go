package charttest

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
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

// What serves the history reads the Redis that weir writes it to, by the same variables and Secrets, and the descriptor files
// that weir has, if it has any. It is told nothing of how weir counts, answers or drains.
func TestTheHistoryServerReadsWhereWeirWrites(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"everything", "ha", "cluster-tls", "ring"} {
		values := caseValues(t, name)
		values["historyServer"] = map[string]any{"enabled": true}
		r := render(t, "weir", values)
		server, history := r.podOfComponent(t, "server").Containers[0], r.podOfComponent(t, "history").Containers[0]
		env := func(c *corev1.Container) map[string]string {
			all := make(map[string]string)
			for _, e := range c.Env {
				all[e.Name] = fmt.Sprint(e.Value, e.ValueFrom)
			}
			return all
		}
		of, is := env(&server), env(&history)
		if !slices.Equal(history.Args[2:], server.Args[1:]) {
			t.Errorf("with ci/%s-values.yaml weir is started with %q and the history server with %q; want the same files", name, server.Args, history.Args)
		}
		for variable, value := range of {
			mustHave := slices.ContainsFunc([]string{"REDIS_", "HISTORY_KEEP", "LOG_", "DEBUG_", "ADMIN_", "BACKEND_TYPE", "ALGORITHM", "MERGE_DOMAIN_CONFIG"}, func(prefix string) bool {
				return strings.HasPrefix(variable, prefix)
			})
			if got, has := is[variable]; mustHave && got != value || has && got != value {
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

func TestTheHistoryServerNeedsNoCountersInRedis(t *testing.T) {
	t.Parallel()
	r := render(t, "weir", valuesOf(t, "history: {redis: {urlSecret: history-redis}}\nhistoryServer: {enabled: true}"))
	pod := r.podOfComponent(t, "history")
	if len(pod.Volumes) != 3 || pod.Volumes[1].Name != "weir-descriptors" || pod.Volumes[1].Projected == nil ||
		pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "history-redis" {
		t.Errorf("the history server mounts %v", pod.Volumes)
	}
	wantMounts(t, r.Objects[0], pod)
}

// Where weir is started as ratelimit, its files are named by variables, and the history server has them as well. A
// configuration server's limits it does not have.
func TestTheHistoryServerHasTheFilesThereAre(t *testing.T) {
	t.Parallel()
	const files = "/etc/weir/descriptors"
	for name, wants := range map[string]bool{"ratelimit-files": true, "ratelimit": false} {
		values := caseValues(t, name)
		values["historyServer"] = map[string]any{"enabled": true}
		values["history"] = map[string]any{"redis": map[string]any{"urlSecret": "history-redis"}}
		r := render(t, "weir", values)
		pod, serves := r.podOfComponent(t, "history"), r.podOfComponent(t, "server")
		c := pod.Containers[0]
		args := []string{"history", "serve"}
		if wants {
			args = append(args, "--config", files)
		}
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == files })
		if !slices.Equal(c.Args, args) || mounted != wants {
			t.Errorf("with ci/%s-values.yaml its arguments are %q, and the files are mounted: %v; want %q, %v", name, c.Args, mounted, args, wants)
		}
		of := func(pod *corev1.PodSpec) string {
			i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "weir-descriptors" })
			if i < 0 {
				return "none"
			}
			return string(toJSON(t, pod.Volumes[i]))
		}
		if is, want := of(pod), of(serves); is != want || (is != "none") != wants {
			t.Errorf("with ci/%s-values.yaml its descriptor files are %s, and weir's %s; want the same", name, is, want)
		}
		wantMounts(t, r.Objects[0], pod)
		// A Redis that is away restarts no process that reads it: only readiness asks for it.
		if c.StartupProbe.HTTPGet.Path != "/livez" || c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
			t.Errorf("the probes ask %v, %v and %v", c.StartupProbe.HTTPGet, c.LivenessProbe.HTTPGet, c.ReadinessProbe.HTTPGet)
		}
	}
}

// dataSource is the data source of a release, as Grafana's sidecar finds it.
func dataSource(t *testing.T, r *Rendered) map[string]any {
	t.Helper()
	i := slices.IndexFunc(r.Objects, func(o Object) bool { return o.At("metadata", "labels", "grafana_datasource") == "1" })
	if i < 0 {
		t.Fatal("the release has no data source that Grafana's sidecar finds")
	}
	for name, text := range decode(t, r.Objects[i]).(*corev1.ConfigMap).Data {
		all, _ := valuesOf(t, text)["datasources"].([]any)
		if !strings.HasSuffix(name, ".yaml") || len(all) != 1 {
			t.Fatalf("%s is no file of one data source:\n%s", name, text)
		}
		return all[0].(map[string]any)
	}
	return nil
}

// The data source asks a Service of the release, on a port that it has, as weir's API wants to be asked. Its uid stays when
// the chart changes, and is another in each release, or Grafana would take one for the other.
func TestTheDataSourceLeadsToWhatAnswers(t *testing.T) {
	t.Parallel()
	uids := make(map[any]bool)
	for values, want := range map[string]string{
		"{}":                                 "weir-admin",
		"admin: {port: 7000}":                "weir-admin",
		"redis: {addresses: ['redis:6379']}": "weir-admin",
		"redis: {addresses: ['redis:6379']}\nhistory: {query: {enabled: false}}\nhistoryServer: {enabled: true}": "weir-history",
		"mode: sidecar\nredis: {addresses: ['redis:6379']}\nhistoryServer: {enabled: true}":                      "weir-history",
	} {
		r := render(t, "weir", loader.MergeMaps(valuesOf(t, values), valuesOf(t, "monitoring: {dataSource: {enabled: true}}")))
		source := dataSource(t, r)
		address, err := url.Parse(fmt.Sprint(source["url"]))
		if err != nil || address.Path != "/prometheus" || source["type"] != "prometheus" || source["access"] != "proxy" {
			t.Fatalf("with %s: the data source is %+v, %v", values, source, err)
		}
		uids[source["uid"]] = true
		found := slices.ContainsFunc(r.Objects, func(o Object) bool {
			service, is := decode(t, o).(*corev1.Service)
			return is && address.Hostname() == want+".limits.svc.cluster.local" && service.Name == want &&
				slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "admin" && fmt.Sprint(p.Port) == address.Port() })
		})
		if !found {
			t.Errorf("with %s the data source asks %s, which is the admin port of no Service; want %s's", values, address, want)
		}
		answers := r.deployment(t)
		if want == "weir-history" {
			answers = r.deploymentOf(t, "history")
		}
		i := slices.IndexFunc(answers.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "ADMIN_HOSTS" })
		if i < 0 || !slices.Contains(strings.Split(answers.Spec.Template.Spec.Containers[0].Env[i].Value, ","), address.Hostname()) {
			t.Errorf("with %s the port would refuse Grafana, which asks for %s", values, address.Hostname())
		}
		settings := map[string]any{"httpMethod": "POST", "prometheusType": "Prometheus", "prometheusVersion": "3.0.0", "timeInterval": "1m", "incrementalQuerying": false, "manageAlerts": false}
		if is, _ := source["jsonData"].(map[string]any); !maps.Equal(is, settings) {
			t.Errorf("the data source has the settings %v, want %v: see server/promql/API.md", is, settings)
		}
	}
	if len(uids) != 1 {
		t.Errorf("the uid of one release depends on its values: %v", uids)
	}
	for _, r := range []*Rendered{render(t, "other", valuesOf(t, "monitoring: {dataSource: {enabled: true}}")),
		render(t, "weir", valuesOf(t, "monitoring: {namespace: grafana, dataSource: {enabled: true, uid: mine, name: My weir}}"))} {
		if uid := fmt.Sprint(dataSource(t, r)["uid"]); uids[uid] || len(uid) > 40 {
			t.Errorf("two releases have data sources of the uid %s", uid)
		}
	}
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
