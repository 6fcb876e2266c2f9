//go:build apiserver

// Package apiserver gives the chart and the kustomizations to a real kube-apiserver.
package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/helm/charttest"
)

// The repository, seen from this package.
var root = filepath.Join("..", "..", "..")

// connect makes the clients, once the cluster is ready.
func (c *cluster) connect(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	c.client, c.mapper = client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))
}

// resource is where the cluster keeps an object.
func (c *cluster) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == "namespace" {
		return c.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
	}
	return c.client.Resource(mapping.Resource), nil
}

// apply does what kubectl apply --server-side does, and refuses unknown fields. What came back must hold all that was sent.
func (c *cluster) apply(t *testing.T, o charttest.Object, namespace string) {
	t.Helper()
	sent := unstructure(t, o)
	if sent.GetNamespace() == "" {
		sent.SetNamespace(namespace)
	}
	at, err := c.resource(sent)
	if err != nil {
		t.Errorf("%s: %v", o, err)
		return
	}
	body, err := json.Marshal(sent.Object)
	if err != nil {
		t.Fatal(err)
	}
	force := true
	came, err := at.Patch(t.Context(), sent.GetName(), "application/apply-patch+yaml", body,
		metav1.PatchOptions{FieldManager: "test", Force: &force, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Errorf("the API refuses %s: %v\n%s", o, err, o.Text)
		return
	}
	wantAll(t, o.String(), "", sent.Object, came.Object)
}

func unstructure(t *testing.T, o charttest.Object) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(o.Tree)
	if err != nil {
		t.Fatal(err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(text); err != nil {
		t.Fatalf("%s: %v", o, err)
	}
	return &u
}

// wantAll wants all that was sent in what came back, which may hold more.
func wantAll(t *testing.T, object, path string, sent, came any) {
	t.Helper()
	switch sent := sent.(type) {
	case map[string]any:
		there, _ := came.(map[string]any) // nil: nothing of it is there
		for key, value := range sent {
			wantAll(t, object, path+"."+key, value, there[key])
		}
	case []any:
		there, _ := came.([]any) // nil: nothing of it is there
		if len(there) < len(sent) {
			t.Errorf("%s%s had %d items, and %d came back", object, path, len(sent), len(there))
			return
		}
		for i, value := range sent {
			wantAll(t, object, fmt.Sprintf("%s[%d]", path, i), value, there[i])
		}
	default:
		empty := sent == nil || reflect.ValueOf(sent).IsZero() // is not written down
		if !reflect.DeepEqual(sent, came) && !(empty && came == nil) {
			t.Errorf("%s%s was %v, and %v came back", object, path, sent, came)
		}
	}
}

// namespaces makes namespaces in which only restricted pods are admitted.
func (c *cluster) namespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		objects, err := charttest.ReadObjects("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name +
			"\n  labels: {pod-security.kubernetes.io/enforce: restricted}\n")
		if err != nil {
			t.Fatal(err)
		}
		c.apply(t, objects[0], "")
	}
}

// admit asks whether the pods that an object would make are admitted. Nothing makes them here, so it makes one, without
// keeping it.
func (c *cluster) admit(t *testing.T, o charttest.Object, namespace string) {
	t.Helper()
	path := map[string][]string{"Pod": {}, "Deployment": {"spec", "template"},
		"CronJob": {"spec", "jobTemplate", "spec", "template"}}
	keys, makesPods := path[o.Kind()]
	if !makesPods {
		return
	}
	spec, _ := o.At(append(slices.Clone(keys), "spec")...).(map[string]any) // nil is refused
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "asked-for", "namespace": namespace}, "spec": spec}}
	text, err := json.Marshal(pod.Object) // numbers as JSON has them
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	for _, class := range []string{"priorityClassName", "runtimeClassName"} { // need objects of the cluster's owner
		unstructured.RemoveNestedField(pod.Object, "spec", class)
	}
	pods := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if _, err := pods.Create(t.Context(), pod, options); err != nil {
		t.Errorf("a pod of %s is not admitted: %v", o, err)
	}
}

// definitions are those of Istio, of the Prometheus operator and of Envoy Gateway, as their own modules have them.
func (c *cluster) definitions(t *testing.T) {
	t.Helper()
	module := func(field, name string) string { return goTool(t, "list", "-m", "-f", "{{."+field+"}}", name) }
	const prometheus = "github.com/prometheus-operator/prometheus-operator"
	whole := prometheus + "@" + module("Version", prometheus+"/pkg/apis/monitoring") // nothing imports it
	goTool(t, "mod", "download", whole)
	operator := module("Dir", whole)
	files := []string{filepath.Join(module("Dir", "istio.io/api"), "kubernetes", "customresourcedefinitions.gen.yaml")}
	for _, name := range []string{"servicemonitors", "podmonitors", "prometheusrules"} {
		files = append(files, filepath.Join(operator, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+name+".yaml"))
	}
	var objects []charttest.Object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := charttest.ReadObjects(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, found...)
	}
	gateway, err := charttest.Load(filepath.Join(module("Dir", "github.com/envoyproxy/gateway"), "charts", "gateway-crds-helm"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := charttest.Render(gateway, charttest.Release{Name: "crds", Namespace: "default", Values: map[string]any{
		"crds": map[string]any{"envoyGateway": map[string]any{"enabled": true}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range slices.Concat(objects, r.Objects) {
		c.define(t, o)
	}
	c.awaitKinds(t)
}

// define makes a definition; they are others', so what comes back is not compared.
func (c *cluster) define(t *testing.T, o charttest.Object) {
	t.Helper()
	sent := unstructure(t, o)
	at, err := c.resource(sent)
	if err == nil {
		_, err = at.Create(t.Context(), sent, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatalf("defining %s: %v", o.Name(), err)
	}
}

// awaitKinds waits until the API knows what was defined.
func (c *cluster) awaitKinds(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(process.Hang)
	for _, kind := range []schema.GroupVersionKind{
		{Group: "networking.istio.io", Version: "v1alpha3", Kind: "EnvoyFilter"},
		{Group: "networking.istio.io", Version: "v1", Kind: "DestinationRule"},
		{Group: "security.istio.io", Version: "v1", Kind: "PeerAuthentication"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
		{Group: "gateway.envoyproxy.io", Version: "v1alpha1", Kind: "EnvoyPatchPolicy"},
	} {
		for {
			c.mapper.Reset()
			_, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the API does not know %s: %v", kind, err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// kustomized is what kubectl apply -k would apply.
func kustomized(t *testing.T, dir string) []charttest.Object {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), process.Tool(t, "kubectl"), "kustomize", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := charttest.ReadObjects(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// wantInstalled wants what a release renders to in the cluster, with all its fields.
func (c *cluster) wantInstalled(t *testing.T, objects []charttest.Object, namespace string) {
	t.Helper()
	for _, o := range objects {
		c.admit(t, o, namespace)
		if hook, _ := o.At("metadata", "annotations").(map[string]any); hook["helm.sh/hook"] != nil {
			continue
		}
		sent := unstructure(t, o)
		if o.Kind() == "Secret" && strings.HasSuffix(o.Name(), "-admin-token") {
			delete(sent.Object, "data") // is random
		}
		if sent.GetNamespace() == "" {
			sent.SetNamespace(namespace)
		}
		at, err := c.resource(sent)
		if err != nil {
			t.Fatal(err)
		}
		came, err := at.Get(context.Background(), sent.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Errorf("helm has not installed %s: %v", o, err)
			continue
		}
		wantAll(t, o.String(), "", sent.Object, came.Object)
	}
}

// token is what the Secret of the chart holds, in base64.
func (c *cluster) token(t *testing.T, namespace string) string {
	t.Helper()
	secrets := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace)
	secret, err := secrets.Get(t.Context(), "weir-admin-token", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, _, _ := unstructured.NestedString(secret.Object, "data", "token") // "" is no token
	return token
}

func TestARealAPITakesChartAndKustomizations(t *testing.T) {
	c := startCluster(t)
	c.connect(t)
	c.definitions(t)
	c.namespaces(t, "istio-system", "monitoring", "shop", "edge")
	t.Run("helm install and upgrade", func(t *testing.T) { c.installEachCase(t) })
	for _, dir := range []string{"base", "overlays/demo", "overlays/ha-sentinel", "overlays/cluster", "overlays/ring",
		"overlays/mtls", "istio", "envoy-gateway"} {
		t.Run("apply -k k8s/"+dir, func(t *testing.T) {
			namespace := "k-" + filepath.Base(dir)
			c.namespaces(t, namespace)
			for _, o := range kustomized(t, filepath.Join(root, "k8s", filepath.FromSlash(dir))) {
				c.apply(t, o, namespace)
				c.admit(t, o, namespace)
			}
		})
	}
}

// installEachCase installs the defaults, upgrades to the values of each case, looks, and uninstalls.
func (c *cluster) installEachCase(t *testing.T) {
	t.Helper()
	dir := filepath.Join(root, "helm", "weir")
	chart, err := charttest.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "ci", "*-values.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d values files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			c.namespaces(t, name)
			defaults, err := charttest.Render(chart, charttest.Release{Name: "weir", Namespace: name})
			if err != nil {
				t.Fatal(err)
			}
			c.helm(t, "install", "weir", dir, "--namespace", name)
			c.wantInstalled(t, defaults.Objects, name)
			token := c.token(t, name)
			if token == "" {
				t.Error("helm install makes no token")
			}
			c.helm(t, "upgrade", "weir", dir, "--namespace", name, "--set", "replicas=1")
			if kept := c.token(t, name); kept != token {
				t.Errorf("an upgrade changes the token from %q to %q", token, kept)
			}
			values, err := charttest.ReadValues(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := charttest.Render(chart, charttest.Release{Name: "weir", Namespace: name, Values: values})
			if err != nil {
				t.Fatal(err)
			}
			c.helm(t, "lint", dir, "--strict", "--values", file)
			c.helm(t, "upgrade", "weir", dir, "--namespace", name, "--values", file)
			c.wantInstalled(t, r.Objects, name)
			c.helm(t, "uninstall", "weir", "--namespace", name)
		})
	}
}
