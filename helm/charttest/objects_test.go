package charttest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	gateway "github.com/envoyproxy/gateway/api/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	istioapi "istio.io/api/networking/v1alpha3"
	istiosecurityapi "istio.io/api/security/v1beta1"
	istiov1 "istio.io/client-go/pkg/apis/networking/v1"
	istio "istio.io/client-go/pkg/apis/networking/v1alpha3"
	istiosecurity "istio.io/client-go/pkg/apis/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"
)

// decoder reads into the types of Kubernetes and of what stands beside it in a mesh, and refuses fields that they lack.
var decoder = sync.OnceValues(func() (runtime.Decoder, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, istio.AddToScheme,
		istiov1.AddToScheme, istiosecurity.AddToScheme, gateway.AddToScheme, gatewayapi.Install} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer(), nil
})

// decoded are the objects that were read, by their text. Nobody changes them.
var decoded sync.Map

// decode reads an object into the type of its API, which must know every field.
func decode(t *testing.T, o Object) runtime.Object {
	t.Helper()
	// The first is a file, and no object of the API; the types of the second are a module as large as all others.
	if into, alone := map[string]any{"EnvoyGateway": &gateway.EnvoyGateway{}, "Certificate": &certificate{}}[o.Kind()]; alone {
		strict := json.NewDecoder(bytes.NewReader(toJSON(t, o.Tree)))
		strict.DisallowUnknownFields()
		if err := strict.Decode(into); err != nil {
			t.Errorf("%s is not what its API takes: %v", o, err)
		}
		return nil
	}
	if typed, done := decoded.Load(o.Text); done {
		return typed.(runtime.Object)
	}
	d, err := decoder()
	if err != nil {
		t.Fatal(err)
	}
	typed, _, err := d.Decode([]byte(o.Text), nil, nil)
	if err != nil {
		t.Fatalf("%s is not what its API takes: %v\n%s", o, err, o.Text)
	}
	strictSpec(t, o)
	decoded.Store(o.Text, typed)
	return typed
}

// strictSpec looks for fields that Istio's types would drop without a word.
func strictSpec(t *testing.T, o Object) {
	t.Helper()
	specs := map[string]proto.Message{"EnvoyFilter": &istioapi.EnvoyFilter{}, "DestinationRule": &istioapi.DestinationRule{},
		"PeerAuthentication": &istiosecurityapi.PeerAuthentication{}}
	message, isIstio := specs[o.Kind()]
	if !isIstio {
		return
	}
	if err := protojson.Unmarshal(toJSON(t, o.At("spec")), message); err != nil {
		t.Errorf("%s is not what Istio takes: %v\n%s", o, err, o.Text)
	}
}

// certificate is what the chart uses of cert-manager's (https://cert-manager.io/docs/reference/api-docs).
type certificate struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta
	Spec     struct {
		SecretName  string
		IssuerRef   struct{ Name, Kind, Group string }
		Duration    metav1.Duration
		RenewBefore metav1.Duration
		PrivateKey  struct {
			Algorithm, RotationPolicy string
			Size                      int
		}
		Usages, DNSNames []string
	}
}

func toJSON(t *testing.T, tree any) []byte {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// podOf is the pod that an object is, or makes, nil if it makes none.
func podOf(o runtime.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// wantRestricted asks the code that admits pods in a cluster, whatever version of the standard that enforces.
func wantRestricted(t *testing.T, o Object) {
	t.Helper()
	pod := podOf(decode(t, o))
	if pod == nil {
		return
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []api.Version{api.LatestVersion(), api.MajorMinorVersion(1, 27)} {
		level := api.LevelVersion{Level: api.LevelRestricted, Version: version}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
		if !result.Allowed {
			t.Errorf("%s is refused by the restricted standard %s: %s", o, version.String(), result.ForbiddenDetail())
		}
	}
	wantQuiet(t, o, pod)
}

// wantQuiet wants what the standard does not: no token, and nothing writable but what is named so.
func wantQuiet(t *testing.T, o Object, pod *corev1.PodTemplateSpec) {
	t.Helper()
	if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
		t.Errorf("%s gets a token of the API, which it has no use for", o)
	}
	for _, c := range pod.Spec.Containers {
		if c.Command == nil || (c.Command[0] != "/bin/weir" && !strings.HasPrefix(c.Command[0], "/bin/ratelimit")) {
			continue
		}
		if ro := c.SecurityContext.ReadOnlyRootFilesystem; ro == nil || !*ro {
			t.Errorf("%s: the root filesystem of %s can be written to", o, c.Name)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: %s asks for no CPU or has no bound of memory", o, c.Name)
		}
	}
}

// Each object of the chart and of a kustomization is what its API takes, and Envoy what it is given by them; each pod of theirs
// is restricted.
func TestEveryPodIsRestricted(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		for _, o := range r.Objects {
			wantRestricted(t, o)
			wantEnvoyTakes(t, o)
			if o.Namespace() == "" && o.Name() != "limits-text" {
				t.Errorf("%s names no namespace, so it would go where kubectl happens to point", o)
			}
		}
	})
	for _, dir := range kustomizations(t) {
		for _, o := range build(t, dir) {
			wantRestricted(t, o)
			wantEnvoyTakes(t, o)
		}
	}
}
