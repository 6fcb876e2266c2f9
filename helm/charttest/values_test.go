package charttest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

func TestWrongValuesAreRefusedWithASentence(t *testing.T) {
	t.Parallel()
	const redis = "redis: {addresses: ['redis:6379']}\n"
	for _, tc := range []struct{ promise, values, want string }{
		{"a typing mistake", "replica: 3", "additional properties 'replica' not allowed"},
		{"what other charts call it", "redis: {url: 'redis:6379'}", "at '/redis': additional properties 'url' not allowed"},
		{"a password in plain sight", "redis: {auth: {password: x}}", "at '/redis/auth': additional properties 'password'"},
		{"a wrong key in a descriptor file", "descriptors: {a.yaml: {domain: a, descriptors: [{key: user, rate_limits: [{requests_per_unit: 1, unti: day}]}]}}",
			"at '/descriptors/a.yaml/descriptors/0/rate_limits/0': additional properties 'unti' not allowed"},
		{"a text where a file has a number", "descriptors: {a.yaml: {domain: a, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: '10'}}]}}",
			"rate_limit/requests_per_unit': got string, want null or integer"}, // quoted in the file, weir would refuse it
		{"a name that splits a header", `descriptors: {a.yaml: {domain: a, descriptors: [{key: user, rate_limit: {unit: hour, name: "a\r\nb"}}]}}`,
			"at '/descriptors/a.yaml/descriptors/0/rate_limit/name': 'a\\r\\nb' does not match pattern"},
		{"a descriptor file without a domain", "descriptors: {a.yaml: {descriptors: []}}", "at '/descriptors/a.yaml': missing property 'domain'"},
		{"text that is no YAML", "descriptors: {a.yaml: 'domain: [a'}", "descriptors.a.yaml is no YAML"},
		{"text without a domain", "descriptors: {a.yaml: 'descriptors: []'}", "descriptors.a.yaml has no domain"},
		{"an unknown policy", "redis: {onFailure: open}", "at '/redis/onFailure': value must be one of '', 'allow', 'deny', 'local', 'error'"},
		{"an address without a port", "redis: {addresses: [redis]}", "at '/redis/addresses/0'"},
		{"a toleration that would tolerate nothing", "tolerations: [{key: a, efect: NoSchedule}]", "at '/tolerations/0': additional properties 'efect'"},
		{"a DNS option in the wrong place", "dnsConfig: {ndots: 2}", "at '/dnsConfig': additional properties 'ndots'"},
		{"a port that is none", "grpc: {port: 70000}", "maximum: got 70,000, want 65,535"},
		{"a hidden descriptor file", "descriptors: {.shop.yaml: ''}", "'.shop.yaml' does not match pattern"},
		{"a name that is too long", "fullnameOverride: " + strings.Repeat("a", 41), "maxLength: got 41, want 40"},
		{"replicas that do not share", "replicas: 2", "In memory each replica counts for itself"},
		{"scaling that does not share", "autoscaling: {enabled: true}", "In memory each replica counts for itself"},
		{"Redis without an address", "backend: redis", "set redis.addresses or redis.urlSecret.name"},
		{"memory with an address", redis + "backend: memory", "backend is memory, but redis says where Redis is"},
		{"two addresses", "redis: {addresses: ['a:1'], urlSecret: {name: b}}", "both say where Redis is"},
		{"one server with two addresses", "redis: {addresses: ['a:1', 'b:1']}", "redis.type is single, but redis.addresses names 2 servers"},
		{"sentinels without a primary", "redis: {type: sentinel, addresses: ['a:1']}", "set redis.masterName"},
		{"a primary without sentinels", "redis: {masterName: m, addresses: ['a:1']}", "redis.masterName is for sentinels"},
		{"a second Redis without an address", "redis: {addresses: ['a:1'], perSecond: {enabled: true}}", "set redis.perSecond.addresses"},
		{"a certificate without TLS", "redis: {addresses: ['a:1'], tls: {existingSecret: s}}", "set redis.tls.enabled"},
		{"a certificate without a key", "redis: {addresses: ['a:1'], tls: {enabled: true, existingSecret: s, certKey: c}}", "belong together"},
		{"a volume beside Redis", redis + "memory: {persistence: {enabled: true}}", "counters in memory, but they are in Redis"},
		{"both monitors", "monitoring: {serviceMonitor: {enabled: true}, podMonitor: {enabled: true}}", "scraped twice"},
		{"a budget that lets nobody go", redis + "podDisruptionBudget: {minAvailable: 2}", "would let no node be drained"},
		{"too few at most", redis + "autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 2}", "minReplicas 5 is above"},
		{"scaling by nothing", redis + "autoscaling: {enabled: true, targetCPU: null}", "needs something to aim at"},
		{"a sidecar that is scaled", "mode: sidecar\nautoscaling: {enabled: true}", "the workload decides how many"},
		{"a sidecar with a Service", "mode: sidecar\nmonitoring: {serviceMonitor: {enabled: true}}", "in sidecar mode there is no Service"},
		{"a sidecar without pods", "mode: sidecar\nmonitoring: {podMonitor: {enabled: true}}", "set sidecar.selector"},
		{"a sidecar for a gateway", "mode: sidecar\nistio: {gateway: {enabled: true}}", "use istio.sidecar"},
		{"a sidecar with a volume", "mode: sidecar\nmemory: {persistence: {enabled: true}}", "one volume cannot serve every pod"},
		{"a claim that nothing uses", "memory: {persistence: {existingClaim: c}}", "memory.persistence.enabled is false, so counters would end with the pod"},
		{"a second Redis that nothing uses", "redis: {addresses: ['a:1'], perSecond: {addresses: ['b:1']}}", "redis.perSecond.enabled is false"},
		{"an operator's port that no probe reaches", "admin: {host: 127.0.0.1}", "leave admin.host empty"},
		{"the same by IPv6", "mode: sidecar\nadmin: {host: '::1'}", "leave admin.host empty"},
		{"a port that no Envoy reaches", "grpc: {host: 127.0.0.1}", "leave grpc.host empty"},
		{"keys that memory has not", "keyFormat: ratelimit", "weir would count in memory: leave them out"},
		{"a certificate of nobody", "grpc: {tls: {enabled: true, certificate: {enabled: true}}}", "set grpc.tls.certificate.issuer.name"},
		{"TLS without a certificate", "grpc: {tls: {enabled: true}}", "name its Secret in grpc.tls.existingSecret"},
		{"a certificate of gRPC without TLS", "grpc: {tls: {existingSecret: s}}", "set grpc.tls.enabled"},
		{"a client's name that nobody checks", "grpc: {tls: {enabled: true, existingSecret: s, clientName: envoy}}", "set grpc.tls.clientCAKey"},
		{"a sidecar with TLS", "mode: sidecar\ngrpc: {tls: {enabled: true, existingSecret: s}}", "in sidecar mode Envoy asks weir on a Unix socket"},
		{"a probe that knows no TLS", "grpc: {tls: {enabled: true, existingSecret: s}}\nprobes: {grpc: true}", "leave out probes.grpc"},
		{"a mesh that asks in plaintext", "grpc: {tls: {enabled: true, existingSecret: s}}\nistio: {gateway: {enabled: true}}", "leave out one of them"},
		{"limits from two places", "xds: {server: 'limits:18000'}\nexistingConfigMaps: [a]", "leave out descriptors, existingConfigMaps and check"},
		{"a check of files that are not read", "xds: {server: 'limits:18000'}\ncheck: {enabled: true}", "leave out descriptors, existingConfigMaps and check"},
		{"an xDS server that nobody names", "xds: {node: edge}", "set xds.server"},
		{"a certificate without TLS for xDS", "xds: {server: 'limits:18000', tls: {existingSecret: s}}", "set xds.tls.enabled"},
		{"a certificate without a key for xDS", "xds: {server: 'limits:18000', tls: {enabled: true, existingSecret: s, keyKey: ''}}", "belong together"},
		{"statistics on the operator's port", "statistics: {prometheus: {enabled: true, port: 6070}}", "are both 6070"},
		{"gRPC on the port of HTTP", "grpc: {port: 8080}", "grpc.port and http.port are both 8080"},
		{"too short an end", "terminationGracePeriodSeconds: 29", "may take weir 30 s"},
		{"too short an end with a hook", "terminationGracePeriodSeconds: 30\nlifecycle: {preStop: {sleep: {seconds: 1}}}", "may take weir 31 s"},
		{"a hook of unknown length", "lifecycle: {preStop: {exec: {command: [a]}}}", "set terminationGracePeriodSeconds to how long"},
		{"an end of a pod that is not weir's", "mode: sidecar\nterminationGracePeriodSeconds: 60", "in sidecar mode the pod is the workload's"},
		{"a page by no URL", "monitoring: {dashboards: {page: 'weir.example'}}", "at '/monitoring/dashboards/page'"},
		{"a history server without a history", redis + "history: {enabled: false}\nhistoryServer: {enabled: true}", "historyServer would have nothing to read"},
		{"a history server of a file", "historyServer: {enabled: true}", "set redis.addresses or history.redis.urlSecret"},
		{"a data source without a history", "history: {enabled: false}\nmonitoring: {dataSource: {enabled: true}}", "monitoring.dataSource is for the history, and none is kept"},
		{"a data source that nobody answers", "history: {query: {enabled: false}}\nmonitoring: {dataSource: {enabled: true}}", "as history.query.enabled is false"},
		{"a data source without a Service", "mode: sidecar\nmonitoring: {dataSource: {enabled: true}}", "set historyServer.enabled"},
		{"a data source that the dashboard does not find", "monitoring: {dataSource: {enabled: true, name: limits}}", "has no weir in it"},
		{"a history server that a Service of weir's finds", redis + "historyServer: {enabled: true, podLabels: {app.kubernetes.io/component: server}}",
			"historyServer.podLabels sets app.kubernetes.io/component"},
		{"a variable twice", "extraEnv: [{name: LOG_LEVEL, value: debug}]", "extraEnv sets LOG_LEVEL, which the chart sets"},
		{"a common label that selects", "commonLabels: {app.kubernetes.io/name: x}", "commonLabels sets app.kubernetes.io/name, which the chart sets"},
		{"a label by which Helm knows its objects", "commonLabels: {app.kubernetes.io/managed-by: x}", "commonLabels sets app.kubernetes.io/managed-by"},
		{"a Service that no monitor finds", "service: {labels: {app.kubernetes.io/name: x}}", "service.labels sets app.kubernetes.io/name"},
		{"pods that no Service finds", "podLabels: {app.kubernetes.io/component: x}", "podLabels sets app.kubernetes.io/component, by which Services find"},
		{"a job that a Service finds", redis + "history: {downsample: {podLabels: {app.kubernetes.io/component: server}}}",
			"history.downsample.podLabels sets app.kubernetes.io/component"},
	} {
		t.Run(tc.promise, func(t *testing.T) {
			t.Parallel()
			if _, err := tryRender(t, "weir", valuesOf(t, tc.values)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want a refusal that says %q", err, tc.want)
			}
		})
	}
	if _, err := tryRender(t, "1st", nil); err == nil || !strings.Contains(err.Error(), "set fullnameOverride") {
		t.Errorf("a release that begins with a digit: %v; want to be told what to do", err)
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
	"RUNTIME_SUBDIRECTORY":      "the chart says all of the path in RUNTIME_ROOT, or --config",
	"DISABLE_STATS":             "each sink has a value that turns it on",
	"USE_DOG_STATSD_MOGRIFIERS": "what it names are more variables, which extraEnv must set anyway",
}

const (
	tuning    = "it tunes what works without it; extraEnv sets it"
	datadog   = "Datadog sets it by a label of the pod, or extraEnv does"
	password  = "a password in values is a password in every copy of them; redis.auth.existingSecret is a file"
	byAddress = "it follows from the address"
)

// rendered are the variables that weir gets, with a values file that sets them.
func rendered(t *testing.T) map[string]string {
	t.Helper()
	releases := map[string][]Object{"sidecar": renderBeside(t, nil)}
	for _, name := range caseNames(t) {
		releases["ci/"+name+"-values.yaml"] = render(t, "weir", caseValues(t, name)).Objects
	}
	names := make(map[string]string)
	for where, objects := range releases {
		for _, o := range ofKind(objects, "Deployment", "CronJob") {
			pod := podOf(decode(t, o))
			for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				for _, e := range c.Env {
					names[e.Name] = where
				}
			}
		}
	}
	return names
}

// samplesOfRatelimit are the samples in k8s in which weir takes the place of envoyproxy/ratelimit. What their users run
// is run in cmd/weir/dropin; the flag of the last, in cmd/weir/e2e.
var samplesOfRatelimit = []string{"istio/rate-limit-service.yaml", "envoy-gateway/drop-in.yaml", "envoy-ai-gateway/ratelimit.yaml"}

var variableLine = regexp.MustCompile(`name: ([A-Z][A-Z0-9_]+)`)

func TestEveryVariableCanBeSetByAValue(t *testing.T) {
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

// Values that nobody thought of together render, or are refused with a sentence: never does a template stumble.
func TestAnyTwoSetsOfValuesRenderOrAreRefused(t *testing.T) {
	t.Parallel()
	names := caseNames(t)
	for i, one := range names {
		others := names[i+1:]
		if testing.Short() { // any two that stand beside each other
			others = others[:min(1, len(others))]
		}
		for _, two := range others {
			values := loader.MergeMaps(caseValues(t, one), caseValues(t, two))
			_, err := tryRender(t, "weir", values)
			if err != nil && !strings.HasPrefix(err.Error(), "execution error at (weir/templates/validate/") {
				t.Errorf("ci/%s-values.yaml and ci/%s-values.yaml together: %v", one, two, err)
			}
		}
	}
}
