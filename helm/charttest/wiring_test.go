package charttest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// theirs are the objects that values name and the chart does not make.
var theirs = regexp.MustCompile(`^(redis-credentials|sentinel-credentials|seconds-credentials|redis-tls|redis-nodes|` +
	`history-redis|weir-admin|grpc-tls|xds-tls|statsd-mapper|authorities-of-limits|limits-of-team-[ab]|more-settings)$`)

// deployment is the release's Deployment, nil in sidecar mode.
func (r *Rendered) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return r.findDeployment(t, func(component string) bool { return component != "history" })
}

// deploymentOf is that of a component, nil if it has none.
func (r *Rendered) deploymentOf(t *testing.T, component any) *appsv1.Deployment {
	t.Helper()
	return r.findDeployment(t, func(of string) bool { return of == component })
}

func (r *Rendered) findDeployment(t *testing.T, of func(component string) bool) *appsv1.Deployment {
	t.Helper()
	for _, o := range r.Objects {
		if d, ok := decode(t, o).(*appsv1.Deployment); ok && of(d.Labels["app.kubernetes.io/component"]) {
			return d
		}
	}
	return nil
}

func TestSelectorsFindThePods(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		for _, o := range r.Objects {
			d := r.deploymentOf(t, o.At("metadata", "labels", "app.kubernetes.io/component"))
			other := "history"
			if d == nil {
				d = r.deployment(t)
			} else if d.Labels["app.kubernetes.io/component"] == other {
				other = "server"
			}
			if d == nil {
				return
			}
			pods := labels.Set(d.Spec.Template.Labels)
			var selector map[string]string
			switch o := decode(t, o).(type) {
			case *corev1.Service:
				selector = o.Spec.Selector
				wantPorts(t, d, o)
				if not := r.deploymentOf(t, other); not != nil && labels.SelectorFromSet(selector).Matches(labels.Set(not.Spec.Template.Labels)) {
					t.Errorf("Service %s leads to the pods of %s as well, which answer something else", o.Name, not.Name)
				}
			case *policyv1.PodDisruptionBudget:
				selector = o.Spec.Selector.MatchLabels
			case *networkingv1.NetworkPolicy:
				selector = o.Spec.PodSelector.MatchLabels
			case *appsv1.Deployment:
				selector = o.Spec.Selector.MatchLabels
			case *batchv1.CronJob:
				if labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(o.Spec.JobTemplate.Spec.Template.Labels)) {
					t.Errorf("the Service would send requests to the pods of %s", o.Name)
				}
				continue
			default:
				continue
			}
			if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pods) {
				t.Errorf("%s selects %v, but the pods are %v", o, selector, pods)
			}
		}
	})
}

// An object that gives a label twice is refused by strict readers, and which of both holds is chance in the others.
func TestALabelOfOneKindOfObjectGoesBeforeTheCommonOne(t *testing.T) {
	t.Parallel()
	own := map[string]any{"team": "own", "sidecar.istio.io/inject": "own"}
	r := render(t, "weir", map[string]any{
		"commonLabels": map[string]any{"team": "common", "sidecar.istio.io/inject": "common"},
		"podLabels":    own,
		"service":      map[string]any{"labels": own},
		"redis":        map[string]any{"addresses": []any{"redis:6379"}},
		"history":      map[string]any{"downsample": map[string]any{"podLabels": own}},
		"monitoring": map[string]any{"labels": own, "serviceMonitor": map[string]any{"enabled": true},
			"rules": map[string]any{"enabled": true}},
	})
	want := map[string]string{"Service/weir": "own", "ServiceMonitor/weir": "own", "PrometheusRule/weir": "own", "Deployment/weir": "common"}
	for _, o := range r.Objects {
		team := o.At("metadata", "labels", "team")
		if name := o.Kind() + "/" + o.Name(); want[name] != "" && team != want[name] {
			t.Errorf("%s has team %v, want %s", name, team, want[name])
		}
		if pod := podOf(decode(t, o)); pod != nil && o.Kind() != "Pod" && pod.Labels["team"] != "own" {
			t.Errorf("the pods of %s have team %s, want what the values say of pods", o, pod.Labels["team"])
		}
	}
}

// Istio finds out by itself whether the other side has a proxy, unless it is told: mTLS with a weir outside the mesh fails.
func TestADestinationRuleAsksForMTLSOnlyWhereWeirDemandsIt(t *testing.T) {
	t.Parallel()
	for _, demanded := range []bool{false, true} {
		r := render(t, "weir", map[string]any{"istio": map[string]any{"destinationRule": map[string]any{"enabled": true},
			"peerAuthentication": map[string]any{"enabled": demanded}}})
		for _, o := range r.Objects {
			if tls := o.At("spec", "trafficPolicy", "tls"); o.Kind() == "DestinationRule" && (tls != nil) != demanded {
				t.Errorf("with peerAuthentication.enabled %v the DestinationRule says %v of TLS", demanded, tls)
			}
		}
	}
}

// A weir in a mesh has a proxy beside it, which is not ready before it has spoken with istiod.
func TestAPolicyLeavesAMeshItsWays(t *testing.T) {
	t.Parallel()
	for _, mesh := range []bool{false, true} {
		r := render(t, "weir", map[string]any{"networkPolicy": map[string]any{"enabled": true},
			"istio": map[string]any{"peerAuthentication": map[string]any{"enabled": mesh}}})
		for _, o := range r.Objects {
			policy, isPolicy := decode(t, o).(*networkingv1.NetworkPolicy)
			if !isPolicy {
				continue
			}
			in := slices.ContainsFunc(policy.Spec.Ingress[0].Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == 15008 })
			out := slices.ContainsFunc(policy.Spec.Egress, func(e networkingv1.NetworkPolicyEgressRule) bool {
				return len(e.To) == 0 && e.Ports[0].Port.IntValue() == 15012
			})
			if in != mesh || out != mesh {
				t.Errorf("with mesh %v the policy lets HBONE in: %v, and istiod be asked: %v", mesh, in, out)
			}
		}
	}
}

// wantPorts wants every port of a Service to lead to one of the pods.
func wantPorts(t *testing.T, d *appsv1.Deployment, s *corev1.Service) {
	t.Helper()
	for _, port := range s.Spec.Ports {
		leads := slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
			return port.TargetPort == intstr.FromString(c.Name) && port.Port == c.ContainerPort
		})
		if !leads {
			t.Errorf("port %s (%d) of Service %s leads to no port of the pods", port.Name, port.Port, s.Name)
		}
	}
}

func TestEverythingThatIsNamedIsThere(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		made := make(map[string]bool)
		for _, o := range r.Objects {
			made[o.Kind()+"/"+o.Name()] = true
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
			for _, ref := range referencesOf(&pod.Spec) {
				want(o, ref.kind, ref.name)
			}
			wantMounts(t, o, &pod.Spec)
		}
	})
}

// A job that mounts what its pod does not have never starts, and one that lacks a certificate cannot reach Redis.
func TestTheJobMountsWhatWeirMountsOfTheExtraVolumes(t *testing.T) {
	t.Parallel()
	ca := map[string]any{"name": "ca", "configMap": map[string]any{"name": "authorities"}}
	r := render(t, "weir", map[string]any{
		"mode":         "sidecar", // whose pods may have volumes that the chart does not know of
		"redis":        map[string]any{"addresses": []any{"redis:6379"}},
		"extraVolumes": []any{ca, map[string]any{"name": "other", "emptyDir": map[string]any{}}},
		"extraVolumeMounts": []any{map[string]any{"name": "ca", "mountPath": "/etc/ca"},
			map[string]any{"name": "of-the-workload", "mountPath": "/w"}},
	})
	for _, o := range r.Objects {
		if job, isJob := decode(t, o).(*batchv1.CronJob); isJob {
			pod := job.Spec.JobTemplate.Spec.Template.Spec
			mounts := pod.Containers[0].VolumeMounts
			if len(pod.Volumes) != 1 || pod.Volumes[0].Name != "ca" || len(mounts) != 1 || mounts[0].MountPath != "/etc/ca" {
				t.Errorf("the job has the volumes %v and the mounts %v; want only ca, which weir mounts of extraVolumes", pod.Volumes, mounts)
			}
			return
		}
	}
	t.Error("with Redis there is no CronJob, so this test sees nothing")
}

type reference struct{ kind, name string }

// referencesOf are the ConfigMaps, Secrets and claims that a pod names.
func referencesOf(pod *corev1.PodSpec) (refs []reference) {
	for _, v := range pod.Volumes {
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
	}
	for _, c := range pod.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				refs = append(refs, reference{"Secret", e.ValueFrom.SecretKeyRef.Name})
			}
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

// wantTimeToEnd wants a pod to live for as long as weir may take to end, with what Kubernetes takes off that for a hook: killed
// before, it cuts off calls, or hits on their way to the history, for which it has 5 s.
func wantTimeToEnd(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	weir := d.Spec.Template.Spec.Containers[0]
	var drain, hook int64
	for _, e := range weir.Env {
		if e.Name == "DRAIN_DELAY" || e.Name == "DRAIN_TIMEOUT" {
			seconds := int64(0)
			if _, err := fmt.Sscanf(e.Value, "%ds", &seconds); err != nil {
				t.Fatalf("%s=%s is no number of seconds", e.Name, e.Value)
			}
			drain += seconds
		}
	}
	if weir.Lifecycle != nil && weir.Lifecycle.PreStop != nil && weir.Lifecycle.PreStop.Sleep != nil {
		hook = weir.Lifecycle.PreStop.Sleep.Seconds
	}
	if grace := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; drain == 0 || grace < hook+drain+5 {
		t.Errorf("the pod is killed after %d s, but its hook takes %d s, its drain may take %d s and its last hits 5 s more",
			grace, hook, drain)
	}
}

// A pod that is killed in its drain cuts off calls; a budget that lets no pod go stops every upgrade of a node.
func TestPodsMayGoInPeace(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		d := r.deployment(t)
		if d == nil {
			return
		}
		wantTimeToEnd(t, d)
		replicas, scaled, budgets := 1, false, 0
		if d.Spec.Replicas != nil {
			replicas = int(*d.Spec.Replicas)
		}
		for _, o := range r.Objects {
			switch o := decode(t, o).(type) {
			case *autoscalingv2.HorizontalPodAutoscaler:
				replicas, scaled = int(*o.Spec.MinReplicas), true
			case *policyv1.PodDisruptionBudget:
				if o.Labels["app.kubernetes.io/component"] != "server" {
					continue
				}
				budgets++
				if o.Spec.MinAvailable != nil && o.Spec.MinAvailable.IntValue() >= replicas {
					t.Errorf("%s keeps %s of %d pods: no node could be drained", o.Name, o.Spec.MinAvailable, replicas)
				}
			}
		}
		if scaled != (d.Spec.Replicas == nil) {
			t.Error("the Deployment and the HorizontalPodAutoscaler would both decide how many pods there are, or neither")
		}
		if (budgets > 0) != (replicas > 1) {
			t.Errorf("%d budgets for %d replicas: with one it would stop every drain of its node, with more it is missing",
				budgets, replicas)
		}
	})
}
