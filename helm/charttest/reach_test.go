package charttest

import (
	"fmt"
	"strings"
	"testing"
)

// What values say stands where it belongs, and what they leave open is as the program that weir is started as has it.
func TestValuesReachTheirObjects(t *testing.T) {
	t.Parallel()
	const (
		redis  = "redis: {addresses: ['redis:6379']}\n"
		pod    = "Deployment/weir spec template "
		env    = pod + "spec containers weir env"
		beside = "Deployment/cart spec template spec initContainers weir env"
		job    = "CronJob/weir-downsample spec jobTemplate spec template "

		labels = redis + "commonLabels: {team: common, sidecar.istio.io/inject: common}\npodLabels: &own {team: own, sidecar.istio.io/inject: own}\n" +
			"service: {labels: *own}\nhistory: {downsample: {podLabels: *own}}\n" +
			"monitoring: {labels: *own, serviceMonitor: {enabled: true}, rules: {enabled: true}}\n"
		noted = redis + "commonAnnotations: {team: common}\nservice: {annotations: &own {team: own}}\ndeploymentAnnotations: *own\n" +
			"historyServer: {enabled: true}\ntolerations: [{key: edge, operator: Exists}]\ndnsConfig: {options: [{name: ndots, value: '2'}]}\n" +
			"history: {downsample: {suspend: true, tolerations: [{key: batch, operator: Exists}]}}\n"
		certified = "grpc: {tls: {enabled: true, certificate: {enabled: true, issuer: {name: limits}}}}\n"
		inMesh    = "networkPolicy: {enabled: true}\nistio: {destinationRule: {enabled: true}, peerAuthentication: {enabled: true}}\n"
		outside   = "networkPolicy: {enabled: true}\nistio: {destinationRule: {enabled: true}, peerAuthentication: {enabled: false}}\n"
		// Only ca is mounted by weir; a sidecar's pods may have volumes that the chart does not know of.
		volumes = redis + "mode: sidecar\nextraVolumes: [{name: ca, configMap: {name: authorities}}, {name: other, emptyDir: {}}]\n" +
			"extraVolumeMounts: [{name: ca, mountPath: /etc/ca}, {name: of-the-workload, mountPath: /w}]\n"
		asRatelimit = redis + "program: ratelimit\n"
		better      = "program: ratelimit\nredis: {addresses: ['redis:6379'], onFailure: local}\n" +
			"algorithm: sliding_window\nkeyFormat: weir\nhistory: {enabled: true}\n"
		byXDS = "xds: {server: 'control:18000', node: edge, metadata: {cluster: edge, zone: a}, headers: {x-tenant: shop}, " +
			"tls: {enabled: true, existingSecret: xds-tls, serverName: control}}"
		statistics = "statistics: {prometheus: {enabled: true, path: /numbers, mapper: {existingConfigMap: names, key: names.yaml}}, " +
			"statsd: {enabled: true, host: collector, protocol: udp, port: 9125}, extraTags: {cluster: edge}, flushInterval: 1s}\n"
		viewed  = redis + "networkPolicy: {enabled: true, viewers: [{namespaceSelector: {matchLabels: {a: grafana}}}], clients: [{podSelector: {}}]"
		guarded = viewed + ", operators: [{podSelector: {}}]}\n"
		open    = viewed + "}\n"
		admin   = `[{"port":6070,"protocol":"TCP"}]`
		serving = "historyServer: {enabled: true}\n"
		own     = "history: {redis: {urlSecret: history-redis}}\n"
		source  = "monitoring: {dataSource: {enabled: true}}\n"
		grace   = pod + "spec terminationGracePeriodSeconds"
		grafana = "ConfigMap/weir-datasource data limits-weir.yaml"
		drains  = "drain: {delaySeconds: 15, timeoutSeconds: 40}"
		mine    = "admin: {token: {existingSecret: mine, key: bearer}}"
		history = "Deployment/weir-history spec template spec "
		server  = history + "containers history "
		policy  = "NetworkPolicy/weir spec"
		served  = "NetworkPolicy/weir-history spec"
		gateway = "EnvoyFilter/weir-gateway.limits spec"
	)
	for _, tc := range []struct{ promise, values, path, has, hasNot string }{
		{"a label of Services goes before the common one", labels, "Service/weir metadata labels team", `"own"`, ""},
		{"a label of monitors does", labels, "ServiceMonitor/weir metadata labels team", `"own"`, ""},
		{"a label of rules does", labels, "PrometheusRule/weir metadata labels team", `"own"`, ""},
		{"a label of pods is none of their Deployment", labels, "Deployment/weir metadata labels team", `"common"`, ""},
		{"a label of pods goes before the common one", labels, pod + "metadata labels team", `"own"`, ""},
		{"an annotation of Services goes before the common one", noted, "Service/weir metadata annotations team", `"own"`, ""},
		{"an annotation of Deployments does", noted, "Deployment/weir-history metadata annotations team", `"own"`, ""},
		{"all else has the common one", noted, "CronJob/weir-downsample metadata annotations team", `"common"`, ""},
		{"a job has tolerations of its own", noted, job + "spec tolerations", "batch", "edge"},
		{"without any it has those of all pods", noted, history + "tolerations", "edge", "batch"},
		{"a job that is suspended", noted, "CronJob/weir-downsample spec suspend", "true", ""},
		{"all pods have dnsConfig", noted, job + "spec dnsConfig", "ndots", ""},
		{"a certificate is in the chart's Secret", certified, "Certificate/weir-grpc spec secretName", `"weir-grpc-tls"`, ""},
		{"which weir reads", certified, pod + "spec volumes weir-grpc-tls", `"weir-grpc-tls"`, ""},
		{"it has the Service's name", certified, "Certificate/weir-grpc spec dnsNames", "weir.limits.svc.cluster.local", ""},
		{"a label of a job's pods does", labels, job + "metadata labels team", `"own"`, ""},

		// mTLS with a weir outside the mesh fails; a proxy is not ready before it has spoken with istiod.
		{"mTLS is asked for where weir demands it", inMesh, "DestinationRule/weir spec trafficPolicy tls", "ISTIO_MUTUAL", ""},
		{"and nowhere else", outside, "DestinationRule/weir spec trafficPolicy", "", `"tls"`},
		{"a policy lets HBONE in", inMesh, policy + " ingress", "15008", ""},
		{"a policy lets istiod be asked", inMesh, policy + " egress", "15012", ""},
		{"outside a mesh there is no HBONE", outside, policy, "", "15008"},
		{"outside a mesh there is no istiod", outside, policy, "", "15012"},

		// A job that mounts what its pod does not have never starts; one without a certificate cannot reach Redis.
		{"a job has the volumes that weir mounts", volumes, job + "spec volumes", `[{"configMap":{"name":"authorities"},"name":"ca"}]`, ""},
		{"a job mounts what it has", volumes, job + "spec containers 0 volumeMounts", `[{"mountPath":"/etc/ca","name":"ca"`, "workload"},

		// An EnvoyFilter without a selector is for all gateways of its namespace. In Helm {} keeps the default.
		{"a gateway's selector may be empty", "istio: {gateway: {enabled: true, selector: null}}", gateway, "configPatches", "workloadSelector"},
		{"or lose its label", "istio: {gateway: {enabled: true, selector: {istio: null}}}", gateway, "configPatches", "workloadSelector"},

		// REPLICAS divides a limit where weir does not know better: by more than there are, and callers who are within it would
		// be refused.
		{"weir's defaults", redis, env, "ALGORITHM=sliding_window ON_BACKEND_FAILURE=allow HISTORY=true REPLICAS=2", ""},
		{"ratelimit's", asRatelimit, env, "ALGORITHM=fixed_window ON_BACKEND_FAILURE=error HISTORY=false USE_STATSD=false " +
			"DEBUG_PPROF=false ADMIN_TOKEN_FILE=/etc/weir/admin/token", "KEY_FORMAT="},
		{"better ones in its place", better, env, "ALGORITHM=sliding_window ON_BACKEND_FAILURE=local HISTORY=true KEY_FORMAT=weir", ""},
		{"in memory", "{}", env, "ADMIN_TOKEN_FILE=/etc/weir/admin/token", "REPLICAS="},
		{"replicas by their number", redis + "replicas: 5", env, "REPLICAS=5", ""},
		{"while there are none", redis + "replicas: 0", env, "REPLICAS=1", ""},
		{"with an autoscaler", redis + "replicas: 5\nautoscaling: {enabled: true, minReplicas: 3, maxReplicas: 9}", env, "REPLICAS=3", ""},
		{"beside Envoys that nobody counts", redis + "mode: sidecar", beside, "BACKEND_TYPE=redis", "REPLICAS="},
		{"beside a number of Envoys", redis + "mode: sidecar\nreplicas: 40", beside, "REPLICAS=40", ""},
		{"limits by xDS", byXDS, env, "CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=control:18000 " +
			"CONFIG_GRPC_XDS_NODE_ID=edge CONFIG_GRPC_XDS_NODE_METADATA=cluster=edge,zone=a " +
			"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x-tenant:shop CONFIG_GRPC_XDS_SERVER_USE_TLS=true " +
			"CONFIG_GRPC_XDS_SERVER_TLS_SAN=control CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/etc/weir/xds-tls/tls.key " +
			"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/etc/weir/xds-tls/tls.crt " +
			"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/etc/weir/xds-tls/ca.crt", ""},
		{"a history of its own", asRatelimit + own, env, "HISTORY=true REDIS_HISTORY_URL_FILE=/etc/weir/history-url/url", ""},
		{"whose URL is mounted", own, pod + "spec volumes", `"secretName":"history-redis"`, ""},
		{"also where it is served", own + serving, history + "volumes", `"secretName":"history-redis"`, ""},
		{"statistics", statistics, env, "PROMETHEUS_PATH=/numbers PROMETHEUS_MAPPER_YAML=/etc/weir/mapper/names.yaml STATSD_HOST=collector " +
			"STATSD_PORT=9125 STATSD_PROTOCOL=udp EXTRA_TAGS=cluster:edge STATS_FLUSH_INTERVAL=1s", ""},
		{"by the names of a mapping", statistics, pod + "spec volumes", `"name":"names"`, ""},

		// A Redis that is away restarts no process that reads it: only readiness asks for it.
		{"a history server starts without Redis", own + serving, server + "startupProbe httpGet path", `"/livez"`, ""},
		{"and lives without it", own + serving, server + "livenessProbe httpGet path", `"/livez"`, ""},
		{"but is not ready", own + serving, server + "readinessProbe httpGet path", `"/readyz"`, ""},

		// Who may only look reaches the history server, and where there is none, weir's admin port. Nobody gets in by it
		// where the port is open to everyone.
		{"viewers reach weir", guarded, policy + " ingress last from", `"a":"grafana"`, ""},
		{"on its admin port", guarded, policy + " ingress last ports", admin, ""},
		{"and on no other", guarded, policy + " ingress 0", "ports", "grafana"},
		{"viewers reach the history server", guarded + serving, served + " ingress last from", `"a":"grafana"`, ""},
		{"on its only port", guarded + serving, served + " ingress last ports", admin, ""},
		{"and then not weir", guarded + serving, policy + " ingress", "ports", "grafana"},
		{"an open port names nobody", open, policy + " ingress", "ports", "grafana"},
		{"nor beside a history server", open + serving, policy + " ingress", "ports", "grafana"},

		// A pod that is killed in its drain cuts off calls, or the last hits, which have 5 s; a budget that lets no pod go
		// stops every upgrade of a node, and so does one for a single pod.
		{"a pod may drain for as long as it is told to", drains, grace, "60", ""},
		{"after its hook", "lifecycle: {preStop: {sleep: {seconds: 3}}}", grace, "33", ""},
		{"by its own clock, and no other", drains, env, "DRAIN_DELAY=15s DRAIN_TIMEOUT=40s", ""},
		{"all but one's own number may", redis + "replicas: 3\npodDisruptionBudget: {minAvailable: 2}",
			"PodDisruptionBudget/weir spec", `"minAvailable":2`, "max"},
		{"a single pod may always go", redis + "replicas: 1", "PodDisruptionBudget/weir", "null", ""},
		{"an autoscaler alone says how many there are", redis + "autoscaling: {enabled: true}", "Deployment/weir spec replicas", "null", ""},

		// Whoever has no token, or the wrong one, changes no counters. That none is made is seen beside the kustomizations.
		{"a history server reads weir's token", redis + serving, server + "env", "ADMIN_TOKEN_FILE=/etc/weir/admin/token", ""},
		{"or one of one's own", mine, env, "ADMIN_TOKEN_FILE=/etc/weir/admin/bearer", ""},

		// The data source asks what answers, as weir wants to be asked (server/promql/API.md). Its uid stays when the chart
		// changes, or panels would lose it.
		{"Grafana's sidecar finds the data source", source, "ConfigMap/weir-datasource metadata labels grafana_datasource", `"1"`, ""},
		{"which asks weir", source, grafana, `url: http://weir-admin.limits.svc.cluster.local:6070/prometheus\n`, ""},
		{"by a name that weir takes", source, env + " ADMIN_HOSTS value", `weir-admin.limits.svc.cluster.local`, ""},
		{"on the port that there is", "admin: {port: 7000}\n" + source, grafana, `weir-admin.limits.svc.cluster.local:7000/`, ""},
		{"which the Service has", "admin: {port: 7000}\n" + source, "Service/weir-admin spec ports admin port", "7000", ""},
		{"or a history server", redis + serving + source, grafana,
			`url: http://weir-history.limits.svc.cluster.local:6070/prometheus\n`, ""},
		{"by a name that this takes", redis + serving, server + "env ADMIN_HOSTS value", `weir-history.limits.svc`, ""},
		{"on its port", redis + serving, "Service/weir-history spec ports admin port", "6070", ""},
		{"also beside Envoys", "mode: sidecar\n" + redis + serving + source, grafana, `url: http://weir-history.limits`, ""},
		{"as Grafana asks a Prometheus", source, grafana, `type: prometheus\n    access: proxy\n`, ""},
		{"with long queries, of the metrics that there are", source, grafana, `httpMethod: POST\n      prometheusType: Prometheus\n` +
			`      prometheusVersion: 3.0.0\n      timeInterval: 1m\n      incrementalQuerying: false\n      manageAlerts: false`, ""},
		{"by a uid of this release", source, grafana, `uid: \"weir-a0dbf116edaa\"`, ""},
		{"or by one's own", "monitoring: {dataSource: {enabled: true, uid: mine}}", grafana, `uid: \"mine\"`, ""},

		// Names and texts that YAML would read as something else arrive as they are.
		{"files of descriptors", `descriptors: {"on": "domain: on\n", "1.5": "domain: x\n", a.yaml: "  # first\n  domain: shop\n"}`,
			"ConfigMap/weir-descriptors data", `{"1.5":"domain: x\n","a.yaml":"  # first\n  domain: shop\n","on":"domain: on\n"}`, ""},

		// The notes warn of what could surprise.
		{"counters in memory", "{}", "notes", "weir counts in memory, in one process, and counters and history end with its pod", ""},
		{"one replica", redis + "replicas: 1", "notes", "NOTE: one replica", ""},
		{"Envoy's policy", "mesh: {failureModeDeny: true}", "notes", "Envoy refuses requests (failure_mode_deny: true)", ""},
		{"weir lets pass", redis, "notes", "While Redis is away, weir lets requests pass (redis.onFailure: allow)", ""},
		{"weir gives no verdict", "redis: {addresses: ['redis:6379'], onFailure: error}", "notes",
			"While Redis is away, weir gives none (redis.onFailure: error)", ""},
		{"limits of one pod", "mode: sidecar", "notes", "each pod has limits of its own", ""},
		{"one listener", "envoyGateway: {patchPolicy: {enabled: true}}", "notes",
			"The Gateway eg asks it for domain shop, on limits/eg/http and nowhere else", ""},
		{"no limits of the domain", "descriptors: {api.yaml: 'domain: api'}", "notes",
			"none of descriptors configures the domain shop", ""},
		{"but not where there are some", "descriptors: {a.yaml: 'domain: a', shop.yaml: 'domain: shop'}", "notes", "", "none of descriptors"},
		{"nor where there may be", "descriptors: {a.yaml: 'domain: a'}\nexistingConfigMaps: [limits-of-shop]", "notes", "",
			"none of descriptors"},
	} {
		values := valuesOf(t, tc.values)
		objects, notes := []Object(nil), ""
		if strings.HasPrefix(tc.path, beside) {
			objects = renderBeside(t, map[string]any{"weir": values})
		} else {
			r := render(t, "weir", values)
			objects, notes = r.Objects, r.Notes
		}
		name, path, _ := strings.Cut(tc.path, " ")
		is, wants := "null", []string{tc.has}
		if name == "notes" {
			is = notes
		}
		for _, o := range objects {
			if o.Kind()+"/"+o.Name() != name {
				continue
			}
			at := reach(o.Tree, strings.Fields(path))
			is = string(toJSON(t, at))
			if variables, _ := at.([]any); strings.HasSuffix(path, " env") { // NAME=value, each in a line
				is, wants = "", strings.SplitAfter(strings.ReplaceAll(tc.has, " ", "\n")+"\n", "\n")
				for _, v := range variables {
					is += fmt.Sprint(reach(v, []string{"name"}), "=", reach(v, []string{"value"}), "\n")
				}
			}
		}
		for _, has := range wants {
			if !strings.Contains(is, has) || tc.hasNot != "" && strings.Contains(is, tc.hasNot) {
				t.Errorf("%s: %s is %s, want %s in it, and no %q, with\n%s", tc.promise, tc.path, is, has, tc.hasNot, tc.values)
			}
		}
	}
}

// reach is what stands at a path of keys: of a list a step is the name of an element, 0 its first, or last.
func reach(at any, path []string) any {
	for _, step := range path {
		switch in := at.(type) {
		case map[string]any:
			at = in[step]
		case []any:
			at = nil
			for i, of := range in {
				if named, _ := of.(map[string]any); named["name"] == step || step == "0" && i == 0 || step == "last" {
					at = of
				}
			}
		}
	}
	return at
}
