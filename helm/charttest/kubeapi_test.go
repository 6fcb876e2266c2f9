package charttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A kubeAPI is as much of Kubernetes as kubectl needs to find one pod, and to read its log and its descriptor files.
type kubeAPI struct {
	kubeconfig string      // a file
	forwarded  atomic.Bool // a port of the pod was asked for
}

const podName = "weir-7d9f8b6c5-x2k4q"

const (
	podPath  = "/api/v1/namespaces/limits/pods"
	selector = "app.kubernetes.io/instance=weir,app.kubernetes.io/component=server"
)

// kubeAnswers is what the API says at some paths.
const kubeAnswers = `
pod: &pod {apiVersion: v1, kind: Pod, metadata: {name: ` + podName + `, namespace: limits}, spec: {containers: [{name: weir}]}, status: {phase: Running}}
/api: {kind: APIVersions, versions: [v1]}
/apis: {kind: APIGroupList, apiVersion: v1, groups: []}
/api/v1:
  kind: APIResourceList
  groupVersion: v1
  resources:
  - {name: pods, kind: Pod, namespaced: true, verbs: [get, list]}
  - {name: pods/log, kind: Pod, namespaced: true, verbs: [get]}
  - {name: pods/portforward, kind: Pod, namespaced: true, verbs: [create]}
  - {name: events, kind: Event, namespaced: true, verbs: [list]}
  - {name: configmaps, kind: ConfigMap, namespaced: true, verbs: [list]}
` + podPath + `: {apiVersion: v1, kind: PodList, items: [*pod]}
` + podPath + "/" + podName + `: *pod
/api/v1/namespaces/limits/events: {apiVersion: v1, kind: EventList, items: []}
/api/v1/namespaces/limits/configmaps: {apiVersion: v1, kind: ConfigMapList, items: [
  {apiVersion: v1, kind: ConfigMap, metadata: {name: weir-descriptors, namespace: limits}, data: {shop.yaml: FILE}}]}
`

// startKubeAPI serves an API in which the pod of release weir, in the namespace limits, has the log of a weir, and a
// ConfigMap the shop.yaml that the weir reads.
func startKubeAPI(t *testing.T, from *weir) *kubeAPI {
	t.Helper()
	answers := valuesOf(t, kubeAnswers)
	c := &kubeAPI{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := r.URL.Query().Get("labelSelector")
		answer, err := json.Marshal(answers[r.URL.Path])
		file, unread := os.ReadFile(filepath.Join(from.descriptors, "shop.yaml"))
		quoted, unquoted := json.Marshal(string(file))
		switch err := errors.Join(err, unread, unquoted); {
		case r.URL.Path == podPath+"/"+podName+"/log" && r.URL.Query().Get("container") == "weir":
			fmt.Fprint(w, from.process.Log.String())
		case r.URL.Path == podPath+"/"+podName+"/portforward":
			c.forwarded.Store(true)
			http.Error(w, "no ports are forwarded here", http.StatusNotImplemented)
		case err != nil || answers[r.URL.Path] == nil || of != "" && of != selector:
			http.Error(w, fmt.Sprint("no such thing here: ", r.URL, err), http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(bytes.Replace(answer, []byte(`"FILE"`), quoted, 1)) // kubectl complains if it hears nothing
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
