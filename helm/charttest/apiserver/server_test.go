//go:build apiserver

package apiserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// token is that of a user who may do everything.
const token = "everything"

// cluster is a kube-apiserver with an etcd behind it, and nothing more: no controller, no node, so nothing becomes ready.
type cluster struct {
	config *rest.Config
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	kube   string // a kubeconfig file
}

// startCluster runs both until the test ends.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	etcd, peer, secure := process.Port(t), process.Port(t), process.Port(t)
	etcdURL := fmt.Sprint("http://127.0.0.1:", etcd)
	peerURL := fmt.Sprint("http://127.0.0.1:", peer)
	process.Start(t, "etcd", nil, process.Tool(t, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcdURL,
		"--advertise-client-urls", etcdURL, "--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--initial-cluster", "default="+peerURL, "--unsafe-no-fsync")
	key, tokens := filepath.Join(dir, "key.pem"), filepath.Join(dir, "tokens.csv")
	writeKey(t, key)
	write(t, tokens, token+`,admin,1,"system:masters"`+"\n")
	server := process.Start(t, "kube-apiserver", nil, process.Tool(t, "kube-apiserver"), "--etcd-servers", etcdURL, "--secure-port", fmt.Sprint(secure),
		"--bind-address", "127.0.0.1", "--cert-dir", filepath.Join(dir, "certs"), "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-account-issuer", "https://kubernetes.default.svc", "--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24")
	c := &cluster{kube: filepath.Join(dir, "kubeconfig"), config: &rest.Config{Host: fmt.Sprint("https://127.0.0.1:", secure),
		BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 200, Burst: 200}}
	write(t, c.kube, fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: test\n"+
		"contexts: [{name: test, context: {cluster: test, user: test}}]\n"+
		"clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
		"users: [{name: test, user: {token: %s}}]\n", c.config.Host, token))
	c.await(t, server)
	return c
}

// await waits until the server is ready.
func (c *cluster) await(t *testing.T, server *process.Process) {
	t.Helper()
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		t.Fatal(err)
	}
	server.AwaitReady(t, func() error {
		answer, err := client.Get(c.config.Host + "/readyz")
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %d", answer.StatusCode)
		}
		return nil
	})
}

// helm runs a helm command against the cluster.
func (c *cluster) helm(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), process.Tool(t, "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kube, "HELM_DRIVER=secret")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
}

// writeKey writes the key that the server signs the tokens of accounts with.
func writeKey(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goTool runs a go command and gives what it prints.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go %v: %v\n%s", args, err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
