package charttest

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// installed is a cluster in which Helm finds what is there when it upgrades a release.
type installed struct{ *fake.FakeDynamicClient }

func (c installed) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.Resource(corev1.SchemeGroupVersion.WithResource("secrets")), true, nil
}

// upgrade is the Secret that an upgrade of a release in limits gives, where one is there.
func upgrade(t *testing.T, name string, there Object, values map[string]any) Object {
	t.Helper()
	c, err := weirChart()
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: name, Namespace: "limits", Revision: 2, IsUpgrade: true}
	all, err := util.ToRenderValues(c, values, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewSimpleDynamicClient(scheme.Scheme, &unstructured.Unstructured{Object: there.Tree})
	files, err := engine.RenderWithClientProvider(c, all, installed{cluster})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := ReadObjects(files["weir/templates/secret.yaml"])
	if err != nil || len(objects) != 1 {
		t.Fatalf("an upgrade makes %d Secrets, %v", len(objects), err)
	}
	return objects[0]
}

func tokenIn(t *testing.T, o Object) string {
	t.Helper()
	plain, err := base64.StdEncoding.DecodeString(text(o.At("data", "token")))
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func TestTheTokenIsRandomAndUpgradesKeepIt(t *testing.T) {
	t.Parallel()
	var secrets [2]Object
	for i := range secrets {
		r, err := tryRender(t, "weir", nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets[i] = ofKind(r.Objects, "Secret")[0]
	}
	secret, token, other := secrets[0], tokenIn(t, secrets[0]), tokenIn(t, secrets[1])
	if !regexp.MustCompile(`^[a-zA-Z0-9]{40}$`).MatchString(token) || token == other {
		t.Errorf("two installations have the tokens %q and %q; want 40 letters and digits each, not to be guessed", token, other)
	}
	if kept := tokenIn(t, upgrade(t, "weir", secret, map[string]any{"replicas": 1})); kept != token {
		t.Errorf("an upgrade changes the token from %q to %q: whoever holds it would be refused", token, kept)
	}
	if of := tokenIn(t, upgrade(t, "other", secret, nil)); of == token {
		t.Error("another release has the same token")
	}
	secret.Tree["data"] = map[string]any{}
	if renewed := tokenIn(t, upgrade(t, "weir", secret, nil)); len(renewed) != 40 {
		t.Errorf("where the Secret has lost its token, an upgrade makes %q", renewed)
	}
}

// What the runbook shows for a user who is denied works in a pod of the default chart, which has the token, and not outside.
func TestInThePodHitsAreGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	w := startRendered(t, render(t, "weir", valuesOf(t, "history: {enabled: false}")))
	for range 5 {
		w.ask(t, "user", "ann")
	}
	var env, outside []string
	for name, value := range w.env {
		env = append(env, name+"="+value)
		if !strings.HasSuffix(name, "TOKEN_FILE") {
			outside = append(outside, name+"="+value)
		}
	}
	granted := 0
	for _, c := range readRunbook(t)["A user says he is denied"].commands {
		_, inPod, found := strings.Cut(strings.TrimSuffix(c.line, "; done"), ` -c weir -- weir `)
		if !found {
			t.Errorf("RUNBOOK.md runs %q, which is not in the pod", c.line)
		}
		args := strings.Fields(strings.NewReplacer(`"$DOMAIN"`, "shop", `"$DESCRIPTOR"`, "user=ann").Replace(inPod))
		out, code := process.Command(t, env, process.Weir(t), args...)
		if missing := c.missingIn(out); missing != "" {
			t.Errorf("weir %s ends with %d: %s", inPod, code, missing)
		}
		if args[1] != "grant" {
			continue
		}
		granted++
		if out, code := process.Command(t, outside, process.Weir(t), args...); code != 2 || !strings.Contains(out, "403") {
			t.Errorf("without the pod's token a grant ends with %d: %s", code, out)
		}
		if out, code := process.Command(t, env, process.Weir(t), args...); code != 1 || !strings.Contains(out, "Nothing was counted") {
			t.Errorf("where all is given back, a grant ends with %d: %s; want 1", code, out)
		}
	}
	if granted != 1 {
		t.Errorf("the runbook gives hits back %d times, want once", granted)
	}
}
