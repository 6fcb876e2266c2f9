package charttest

import (
	"encoding/base64"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// installed are Secrets in a cluster, which Helm finds when it upgrades a release.
type installed []Object

func (i installed) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	var objects []runtime.Object
	for _, o := range i {
		objects = append(objects, &unstructured.Unstructured{Object: o.Tree})
	}
	client := fake.NewSimpleDynamicClient(scheme.Scheme, objects...)
	return client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")), true, nil
}

// secretIn is the Secret of a release, and its token. Where one is there already, the release is upgraded.
func secretIn(t *testing.T, release string, values map[string]any, there ...Object) (Object, string) {
	t.Helper()
	r, err := tryRender(t, release, values, there...)
	if err != nil {
		t.Fatal(err)
	}
	secret := ofKind(r.Objects, "Secret")[0]
	plain, err := base64.StdEncoding.DecodeString(text(secret.At("data", "token")))
	if err != nil {
		t.Fatal(err)
	}
	return secret, string(plain)
}

func TestTokenIsRandomAndSurvivesUpgrades(t *testing.T) {
	t.Parallel()
	secret, token := secretIn(t, "weir", nil)
	_, other := secretIn(t, "weir", nil)
	if !regexp.MustCompile(`^[a-zA-Z0-9]{40}$`).MatchString(token) || token == other {
		t.Errorf("two installations have the tokens %q and %q; want 40 letters and digits each, not to be guessed", token, other)
	}
	if _, kept := secretIn(t, "weir", map[string]any{"replicas": 1}, secret); kept != token {
		t.Errorf("an upgrade changes the token from %q to %q: whoever holds it would be refused", token, kept)
	}
	if _, of := secretIn(t, "other", nil, secret); of == token {
		t.Error("another release has the same token")
	}
	secret.Tree["data"] = map[string]any{}
	if _, renewed := secretIn(t, "weir", nil, secret); len(renewed) != 40 {
		t.Errorf("where the Secret has lost its token, an upgrade makes %q", renewed)
	}
}

// A GitOps tool renders without a cluster, again and again.
func TestRenderingWithoutAClusterIsReproducible(t *testing.T) {
	t.Parallel()
	c, err := weirChart()
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{"{}", "admin: {token: {existingSecret: mine}}"} {
		all, err := util.ToRenderValues(c, valuesOf(t, values), common.ReleaseOptions{Name: "weir", Namespace: "limits"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		once, err := engine.Render(c, all)
		again, failed := engine.Render(c, all)
		if err := errors.Join(err, failed); err != nil || !maps.Equal(once, again) {
			t.Errorf("with %s two renders of the chart differ (%v)", values, err)
		}
		deployment := once["weir/templates/deployment.yaml"]
		if secret := once["weir/templates/secret.yaml"]; strings.TrimSpace(secret) != "" ||
			strings.Contains(deployment, "admin-token") || strings.Contains(deployment, "secretName: mine") != (values != "{}") {
			t.Errorf("with %s weir has a token that nobody has given:\n%s%s", values, secret, deployment)
		}
	}
}

// What the runbook shows for a user who is denied works in a pod of the default chart, which has the token, and not outside.
func TestGrantWorksInsideThePod(t *testing.T) {
	t.Parallel()
	w := startRendered(t, render(t, "weir", valuesOf(t, "history: {enabled: false}")))
	for range 5 {
		w.ask(t, "shop", "user", "ann")
	}
	env := listed(w.env)
	outside := slices.DeleteFunc(listed(w.env), func(of string) bool { return strings.Contains(of, "TOKEN_FILE=") })
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
