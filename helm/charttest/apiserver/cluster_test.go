//go:build apiserver

// Package apiserver gives the chart and the kustomizations to a real kube-apiserver, by helm and kubectl.
package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
)

// A cluster is a kube-apiserver with an etcd behind it, and nothing more: no controller, no node, so nothing becomes
// ready.
type cluster struct {
	env []string // which leads helm and kubectl to it
}

// startCluster runs both until the test ends.
func startCluster(t *testing.T) cluster {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	etcd, peer := "http://"+process.Addr(t), "http://"+process.Addr(t)
	process.Start(t, "etcd", nil, process.Tool(t, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	public, private := certstest.New(t, "cluster").Issue(t, "accounts") // of the key that signs the tokens of accounts
	port := fmt.Sprint(process.Port(t))
	server := process.Start(t, "kube-apiserver", nil, process.Tool(t, "kube-apiserver"), "--etcd-servers", etcd,
		"--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", filepath.Join(dir, "certs"),
		"--service-account-key-file", write("public.pem", string(public)),
		"--service-account-signing-key-file", write("private.pem", string(private)),
		"--service-account-issuer", "https://kubernetes.default.svc", "--disable-admission-plugins", "ServiceAccount",
		"--token-auth-file", write("tokens.csv", `everything,admin,1,"system:masters"`), "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24")
	kubeconfig := write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
contexts: [{name: test, context: {cluster: test, user: test}}],
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%s", insecure-skip-tls-verify: true}}],
users: [{name: test, user: {token: everything}}]}`, port))
	c := cluster{append(os.Environ(), "KUBECACHEDIR="+dir, "KUBECONFIG="+kubeconfig)}
	server.AwaitReady(t, func() error {
		_, err := c.try(t, "", "kubectl", "get", "--raw", "/readyz")
		return err
	})
	return c
}

// try runs helm or kubectl against the cluster, and gives what it prints. No pod that it makes, or would make, may be one
// that the restricted standard refuses.
func (c cluster) try(t *testing.T, stdin, tool string, args ...string) (string, error) {
	t.Helper()
	var out, complaints strings.Builder
	cmd := exec.CommandContext(t.Context(), process.Tool(t, tool), args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env, strings.NewReader(stdin), &out, &complaints
	err := cmd.Run()
	if err == nil && strings.Contains(complaints.String(), "would violate PodSecurity") {
		err = errors.New("its pods would not be admitted")
	}
	if err != nil {
		err = fmt.Errorf("%s %v: %w\n%s%s", tool, args, err, &out, &complaints)
	}
	return out.String(), err
}

// run is try, which must work.
func (c cluster) run(t *testing.T, stdin, tool string, args ...string) string {
	t.Helper()
	out, err := c.try(t, stdin, tool, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply does what kubectl apply --server-side does, and refuses unknown fields.
func (c cluster) apply(t *testing.T, stdin string, args ...string) {
	t.Helper()
	args = append([]string{"apply", "--server-side", "--force-conflicts", "--validate=strict"}, args...)
	c.run(t, stdin, "kubectl", args...)
}

// namespaces makes namespaces in which only restricted pods are admitted.
func (c cluster) namespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		c.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+name+"\n  labels: "+
			"{pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}\n", "-f", "-")
	}
}

// in makes a namespace, and has what names none go there.
func (c cluster) in(t *testing.T, namespace string) {
	t.Helper()
	c.namespaces(t, namespace)
	c.run(t, "", "kubectl", "config", "set-context", "test", "--namespace", namespace)
}

// define makes the definitions of Istio, of the Prometheus operator, of cert-manager and of Envoy Gateway, as their own
// modules have them.
func (c cluster) define(t *testing.T) {
	t.Helper()
	module := func(field, name string) string {
		return strings.TrimSpace(c.run(t, "", "go", "list", "-m", "-f", "{{."+field+"}}", name))
	}
	const operator = "github.com/prometheus-operator/prometheus-operator"
	whole := operator + "@" + module("Version", operator+"/pkg/apis/monitoring") // nothing imports it
	download := func(module string) (dir string) {
		var found struct{ Dir string }
		text := c.run(t, "", "go", "mod", "download", "-json", module)
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		return found.Dir
	}
	monitoring := filepath.Join(download(whole), "example", "prometheus-operator-crd", "monitoring.coreos.com_")
	c.apply(t, "", "-f", filepath.Join(module("Dir", "istio.io/api"), "kubernetes", "customresourcedefinitions.gen.yaml"),
		"-f", monitoring+"servicemonitors.yaml", "-f", monitoring+"podmonitors.yaml", "-f", monitoring+"prometheusrules.yaml",
		"-f", filepath.Join(download("github.com/cert-manager/cert-manager@v1.21.2"), "deploy", "crds", "cert-manager.io_certificates.yaml"))
	gateway := filepath.Join(module("Dir", "github.com/envoyproxy/gateway"), "charts", "gateway-crds-helm")
	c.apply(t, c.run(t, "", "helm", "template", "crds", gateway, "--set", "crds.envoyGateway.enabled=true"), "-f", "-")
	c.run(t, "", "kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout", process.Hang.String())
}
