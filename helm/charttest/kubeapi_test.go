package charttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A kubeAPI is as much of Kubernetes as kubectl needs to find one pod, and to read its log and its descriptor files.
type kubeAPI struct {
	kubeconfig string // a file
	mu         sync.Mutex
	asked      []string // paths
}

const podName = "weir-7d9f8b6c5-x2k4q"

// startKubeAPI serves an API in which the pod of release weir, in the namespace limits, has the log of a weir, and a
// ConfigMap the shop.yaml that the weir reads.
func startKubeAPI(t *testing.T, from *weir) *kubeAPI {
	t.Helper()
	resource := func(name, kind string) map[string]any {
		return map[string]any{"name": name, "kind": kind, "namespaced": true, "verbs": []string{"get", "list", "create"}}
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": podName, "namespace": "limits",
		"labels": map[string]any{"app.kubernetes.io/instance": "weir", "app.kubernetes.io/component": "server"}},
		"spec":   map[string]any{"containers": []any{map[string]any{"name": "weir"}}},
		"status": map[string]any{"phase": "Running"}}
	listOf := func(kind string, items ...any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind + "List", "items": slices.Concat([]any{}, items)}
	}
	const pods = "/api/v1/namespaces/limits/pods"
	answers := map[string]any{
		"/api":  map[string]any{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis": map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}},
		"/api/v1": map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
			resource("pods", "Pod"), resource("pods/log", "Pod"), resource("pods/portforward", "Pod"), resource("events", "Event"),
			resource("configmaps", "ConfigMap")}},
		pods:                               listOf("Pod", pod),
		pods + "/" + podName:               pod,
		"/api/v1/namespaces/limits/events": listOf("Event"),
	}
	c := &kubeAPI{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.asked = append(c.asked, r.URL.Path)
		c.mu.Unlock()
		selector := r.URL.Query().Get("labelSelector")
		answer, known := answers[r.URL.Path]
		switch {
		case r.URL.Path == pods+"/"+podName+"/log" && r.URL.Query().Get("container") == "weir":
			fmt.Fprint(w, from.process.Log.String())
		case r.URL.Path == "/api/v1/namespaces/limits/configmaps" && selector == "app.kubernetes.io/instance=weir,app.kubernetes.io/component=server":
			file, err := os.ReadFile(filepath.Join(from.descriptors, "shop.yaml"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(listOf("ConfigMap", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": "weir-descriptors", "namespace": "limits"}, "data": map[string]any{"shop.yaml": string(file)}}))
		case !known || selector != "" && selector != "app.kubernetes.io/instance=weir,app.kubernetes.io/component=server":
			http.Error(w, "no such thing here: "+r.URL.String(), http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // kubectl complains if it hears nothing
		}
	}))
	t.Cleanup(server.Close)
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], "+
		"contexts: [{name: c, context: {cluster: c}}]}", server.URL)
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// wasAsked reports whether a path that ends so was asked for.
func (c *kubeAPI) wasAsked(end string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.asked, func(path string) bool { return strings.HasSuffix(path, end) })
}
