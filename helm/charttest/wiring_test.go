package charttest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// theirs are the objects that values name and the chart does not make.
var theirs = regexp.MustCompile(`^(redis-credentials|sentinel-credentials|seconds-credentials|redis-tls|memcached-tls|redis-nodes|` +
	`history-redis|weir-admin|weir-admin-read|grpc-tls|xds-tls|statsd-mapper|collector-headers|authorities-of-limits|limits-of-team-[ab]|more-settings)$`)

// pod is that of the Deployment or DaemonSet of a component; what has none is the workload that weir is beside.
func (r *Rendered) pod(t *testing.T, component any) *corev1.PodSpec {
	t.Helper()
	for _, o := range ofKind(r.Objects, "Deployment", "DaemonSet") {
		if of := componentOf(o); of == component || of == nil && component == "server" {
			return &podOf(decode(t, o)).Spec
		}
	}
	t.Fatalf("the release has no Deployment or DaemonSet of the component %v", component)
	return nil
}

// componentOf is the part of a release that an object is of.
func componentOf(o Object) any { return o.At("metadata", "labels", "app.kubernetes.io/component") }

// selectorOf are the labels by which an object finds pods, nil if it looks for none.
func selectorOf(o Object) any {
	path, is := map[string][]string{"Service": {"spec", "selector"}, "NetworkPolicy": {"spec", "podSelector", "matchLabels"},
		"Deployment": {"spec", "selector", "matchLabels"}, "DaemonSet": {"spec", "selector", "matchLabels"}, "PodDisruptionBudget": {"spec", "selector", "matchLabels"}}[o.Kind()]
	if !is {
		return nil
	}
	return o.At(path...)
}

// What is of a component finds the pods of that component. Others answer something else; only a policy may be for all.
func TestSelectorsFindThePods(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		for _, o := range r.Objects {
			selector, _ := selectorOf(o).(map[string]any)
			if service, is := decode(t, o).(*corev1.Service); is {
				wantPorts(t, r.pod(t, componentOf(o)), service)
			}
			for _, of := range ofKind(r.Objects, "Deployment", "DaemonSet", "CronJob") {
				pods := podOf(decode(t, of)).Labels
				finds := len(selector) > 0
				for key, value := range selector {
					finds = finds && pods[key] == value
				}
				own := componentOf(of) == componentOf(o)
				if selector != nil && finds != own && (own || o.Kind() != "NetworkPolicy") {
					t.Errorf("%s selects %v, and finds the pods of %s, which are %v: %v; want %v", o, selector, of, pods, finds, own)
				}
			}
		}
	})
}

// wantPorts wants every port of a Service to lead to one of the pods.
func wantPorts(t *testing.T, pod *corev1.PodSpec, s *corev1.Service) {
	t.Helper()
	for _, port := range s.Spec.Ports {
		leads := slices.ContainsFunc(pod.Containers[0].Ports, func(c corev1.ContainerPort) bool {
			return port.TargetPort == intstr.FromString(c.Name) && port.Port == c.ContainerPort
		})
		if !leads {
			t.Errorf("port %s (%d) of Service %s leads to no port of the pods", port.Name, port.Port, s.Name)
		}
	}
}

func TestReferencedObjectsExist(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		made := map[string]bool{"ServiceAccount/default": true} // by Kubernetes, in each namespace
		for _, o := range r.Objects {
			made[o.Kind()+"/"+o.Name()] = true
			if o.Kind() == "Certificate" {
				made[fmt.Sprint("Secret/", o.At("spec", "secretName"))] = true
			}
		}
		want := func(o Object, kind, name string) {
			if name != "" && !made[kind+"/"+name] && !theirs.MatchString(name) {
				t.Errorf("%s needs %s %s, which neither the chart makes nor the values name", o, kind, name)
			}
		}
		for _, o := range r.Objects {
			typed := decode(t, o)
			if scale, ok := typed.(*autoscalingv2.HorizontalPodAutoscaler); ok {
				want(o, scale.Spec.ScaleTargetRef.Kind, scale.Spec.ScaleTargetRef.Name)
			}
			pod := podOf(typed)
			if pod == nil {
				continue
			}
			want(o, "ServiceAccount", pod.Spec.ServiceAccountName)
			for _, v := range pod.Spec.Volumes {
				for _, ref := range namedBy(&v) {
					want(o, ref.kind, ref.name)
				}
			}
			for _, c := range pod.Spec.Containers {
				for _, e := range c.Env {
					if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
						want(o, "Secret", e.ValueFrom.SecretKeyRef.Name)
					}
				}
			}
			wantMounts(t, o, &pod.Spec)
		}
	})
}

type reference struct{ kind, name string }

// namedBy are the ConfigMaps, the Secret or the claim that a volume names.
func namedBy(v *corev1.Volume) (refs []reference) {
	switch {
	case v.Secret != nil:
		refs = append(refs, reference{"Secret", v.Secret.SecretName})
	case v.ConfigMap != nil:
		refs = append(refs, reference{"ConfigMap", v.ConfigMap.Name})
	case v.PersistentVolumeClaim != nil:
		refs = append(refs, reference{"PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName})
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			refs = append(refs, reference{"ConfigMap", source.ConfigMap.Name})
		}
	}
	return refs
}

// wantMounts wants each mount to have a volume and each volume a mount, and every file that a variable names to lie in one.
func wantMounts(t *testing.T, o Object, pod *corev1.PodSpec) {
	t.Helper()
	volumes := make(map[string]bool)
	for _, v := range pod.Volumes {
		volumes[v.Name] = false
	}
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		var paths []string
		for _, m := range c.VolumeMounts {
			if _, there := volumes[m.Name]; !there {
				t.Errorf("%s: %s mounts %s, which is no volume of the pod", o, c.Name, m.Name)
			}
			if m.SubPath != "" {
				t.Errorf("%s: %s mounts a part of %s, which Kubernetes never renews", o, c.Name, m.Name)
			}
			volumes[m.Name] = true
			paths = append(paths, m.MountPath)
		}
		for _, e := range c.Env {
			inMount := slices.ContainsFunc(paths, func(p string) bool { return e.Value == p || strings.HasPrefix(e.Value, p+"/") })
			if strings.HasPrefix(e.Value, "/") && !inMount && e.Name != "PROMETHEUS_PATH" { // which is a URL's
				t.Errorf("%s: %s=%s is in none of the mounts %v", o, e.Name, e.Value, paths)
			}
		}
	}
	for name, mounted := range volumes {
		if !mounted {
			t.Errorf("%s: nothing mounts the volume %s", o, name)
		}
	}
}

// Where an object or a pod is left out, a tool that may write into one namespace, or pull from one registry, fails at it.
func TestNamespaceRegistryAndPullSecretsReachAll(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"everything", "ha"} {
		values := loader.MergeMaps(caseValues(t, name), valuesOf(t, "namespaceOverride: edge\nglobal: {imageRegistry: r.example, imagePullSecrets: [all]}"))
		delete(values, "extraObjects")
		pods := 0
		for _, o := range render(t, "weir", values).Objects {
			if o.Namespace() == "limits" {
				t.Errorf("%s is in the namespace of the release, want edge", o)
			}
			pod := podOf(decode(t, o))
			if pod == nil {
				continue
			}
			pods++
			if !slices.Contains(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: "all"}) {
				t.Errorf("%s pulls by %v, and not by the secret of all charts", o, pod.Spec.ImagePullSecrets)
			}
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				if strings.Contains(c.Image, "/weir") && !strings.HasPrefix(c.Image, "r.example/") {
					t.Errorf("%s pulls %s, want it from r.example", o, c.Image)
				}
			}
		}
		if pods < 4 {
			t.Errorf("%s has %d pods: this test looks in the wrong place", name, pods)
		}
	}
}

// Releases may be called as people like: also two of one name in two namespaces, which may share a gateway and a
// Prometheus.
func TestNamesFitAndReleasesDoNotCollide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-release-name-", 3)[:52]
	releases := []string{"one/weir", "two/weir"}
	for _, release := range []string{"weir", "a", "limits", "a.b", "a-b", "weir.a.b", "weir.a-b", long + "a", long + "b",
		"limits-weir"} {
		releases = append(releases, "limits/"+release)
	}
	kinds := make(map[string]bool)
	kindOf := func(o Object) string { return fmt.Sprint(o.Kind(), " of the ", componentOf(o)) }
	for _, name := range []string{"everything", "istio", "ha", "volume", "cluster-tls", "daemonset"} {
		seen := make(map[string]string) // what it is → release
		for _, of := range releases {
			namespace, release, _ := strings.Cut(of, "/")
			values := caseValues(t, name)
			delete(values, "extraObjects") // one of them names no namespace
			delete(values, "fullnameOverride")
			if release == "limits-weir" {
				delete(values, "serviceAccount") // named by the values, so both releases would have it
			}
			for _, o := range render(t, of, values).Objects {
				wantFits(t, o, namespace, of)
				kinds[kindOf(o)] = true
				for _, thing := range thingsOf(o) {
					if other := seen[thing]; other != "" && o.Name() != "limits-account" {
						t.Errorf("with ci/%s-values.yaml %s belongs to the releases %s and %s", name, thing, of, other)
					}
					seen[thing] = of
				}
			}
			if release == "limits" { // limits and limits-weir are both named limits-weir, as with any chart
				maps.DeleteFunc(seen, func(_, other string) bool { return other == of })
			}
		}
	}
	for _, name := range caseNames(t) {
		for _, o := range render(t, "weir", caseValues(t, name)).Objects {
			if componentOf(o) != nil && !kinds[kindOf(o)] { // extraObjects have none
				t.Errorf("ci/%s-values.yaml gives %s, a %s: take it among those above", name, o, kindOf(o))
			}
		}
	}
}

// wantFits wants an object of a release to have a name that Kubernetes takes, and that tells its namespace in another.
func wantFits(t *testing.T, o Object, namespace, release string) {
	t.Helper()
	longest := map[string]int{"CronJob": 52}[o.Kind()]
	if longest == 0 {
		longest = validation.DNS1035LabelMaxLength
	}
	own, elsewhere := strings.CutSuffix(o.Name(), "."+namespace)
	if elsewhere != (o.Namespace() != namespace && o.Namespace() != "") {
		t.Errorf("%s of the release %s must end with its namespace, and only in another", o, release)
	}
	if wrong := validation.IsDNS1035Label(own); len(wrong) > 0 || len(own) > longest {
		t.Errorf("%s of the release %s has a name of %d characters: %v", o, release, len(o.Name()), wrong)
	}
}

// thingsOf are an object and what it makes for all of a gateway.
func thingsOf(o Object) []string {
	things := []string{o.String()}
	if patches, _ := o.At("spec", "jsonPatches").([]any); len(patches) > 0 {
		things = append(things, fmt.Sprint("cluster ", reach(patches, "last", "operation", "value", "name")))
	}
	return things
}
