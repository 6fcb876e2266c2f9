package charttest

import (
	"context"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// installed is as much of a cluster as Helm looks at when it upgrades a release: one Secret.
type installed struct {
	dynamic.NamespaceableResourceInterface
	secret    Object
	namespace string
}

func (c installed) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c, true, nil
}

func (c installed) Namespace(namespace string) dynamic.ResourceInterface {
	c.namespace = namespace
	return c
}

func (c installed) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if name != c.secret.Name() || c.namespace != c.secret.Namespace() {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &unstructured.Unstructured{Object: c.secret.Tree}, nil
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
	files, err := engine.RenderWithClientProvider(c, all, installed{secret: there})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := ReadObjects(files["weir/templates/secret.yaml"])
	if err != nil || len(objects) != 1 {
		t.Fatalf("an upgrade makes %d Secrets, %v", len(objects), err)
	}
	return objects[0]
}

// tokenSecret is the Secret with the token that the chart makes, and the token.
func tokenSecret(t *testing.T, r *Rendered) (Object, string) {
	t.Helper()
	i := slices.IndexFunc(r.Objects, func(o Object) bool { return o.Kind() == "Secret" && strings.HasSuffix(o.Name(), "-admin-token") })
	if i < 0 {
		return Object{}, ""
	}
	return r.Objects[i], tokenIn(t, r.Objects[i])
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
	first, err := tryRender(t, "weir", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := tryRender(t, "weir", nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, token := tokenSecret(t, first)
	if _, other := tokenSecret(t, second); !regexp.MustCompile(`^[a-zA-Z0-9]{40}$`).MatchString(token) || token == other {
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

func TestTheTokenIsMadeUnlessValuesSayOtherwise(t *testing.T) {
	t.Parallel()
	const file = "/etc/weir/admin/token"
	for values, want := range map[string]struct {
		makes bool
		file  string
	}{
		"{}": {true, file},
		"redis: {addresses: ['redis:6379']}\nhistoryServer: {enabled: true}": {true, file},
		"program: ratelimit":                                  {true, file},
		"admin: {token: {existingSecret: mine}}":              {false, file},
		"admin: {token: {existingSecret: mine, key: bearer}}": {false, "/etc/weir/admin/bearer"},
		"admin: {token: {create: false}}":                     {false, ""},
	} {
		r := render(t, "weir", valuesOf(t, values))
		if secret, _ := tokenSecret(t, r); (secret.Tree != nil) != want.makes {
			t.Errorf("with %s the chart makes a token: %v; want %v", values, secret.Tree != nil, want.makes)
		}
		for _, component := range []string{"server", "history"} {
			if r.deploymentOf(t, component) == nil {
				continue
			}
			pod, is := r.podOfComponent(t, component), ""
			for _, e := range pod.Containers[0].Env {
				if e.Name == "ADMIN_TOKEN_FILE" {
					is = e.Value
				}
			}
			if is != want.file {
				t.Errorf("with %s the %s reads the token in %q, want %q", values, component, is, want.file)
			}
			wantMounts(t, r.Objects[0], pod)
		}
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
		out, code := process.Command(t, env, weirBinary, args...)
		for _, want := range c.prints {
			if !regexp.MustCompile("(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$").MatchString(out) {
				t.Errorf("weir %s prints (%d)\n%s\nwant %s", inPod, code, out, want)
			}
		}
		if args[1] != "grant" {
			continue
		}
		granted++
		if out, code := process.Command(t, outside, weirBinary, args...); code != 2 || !strings.Contains(out, "403") {
			t.Errorf("without the pod's token a grant ends with %d: %s", code, out)
		}
		if out, code := process.Command(t, env, weirBinary, args...); code != 1 || !strings.Contains(out, "Nothing was counted") {
			t.Errorf("where all is given back, a grant ends with %d: %s; want 1", code, out)
		}
	}
	if granted != 1 {
		t.Errorf("the runbook gives hits back %d times, want once", granted)
	}
}
