package charttest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The programs under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // Helm reads schema and templates anew for each release, and drops them
	os.Exit(process.RunWith(m, &weirBinary, &envoyBinary))
}

// eventually asks until what it asks for is so.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > process.Hang {
			t.Fatalf("not within %v: %v", process.Hang, err)
		}
	}
}

// answers is an error unless a URL answers with a status.
func answers(url string, status int) func() error {
	return func() error {
		answer, err := http.Get(url)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			return fmt.Errorf("%s answers %d, want %d", url, answer.StatusCode, status)
		}
		return nil
	}
}

// healthy asks by gRPC, as the kubelet does.
func healthy(t *testing.T, address string) func() error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() error {
		answer, err := health.NewHealthClient(conn).Check(t.Context(), &health.HealthCheckRequest{})
		if err == nil && answer.GetStatus() != health.HealthCheckResponse_SERVING {
			err = fmt.Errorf("the gRPC port is %v", answer.GetStatus())
		}
		return err
	}
}

// weir is a process that runs as a rendered container says.
type weir struct {
	env         map[string]string
	admin, http string // URLs
	statistics  string // likewise, without a path
	grpc        string // host:port, or the path of a socket
	descriptors string // the folder of its descriptor files
	process     *process.Process
}

// startRendered runs the container of a release's Deployment here: its command, its environment and the files that are
// mounted into it. Only what a container has for itself is another: ports, and where its files are.
func startRendered(t *testing.T, r *Rendered) *weir {
	t.Helper()
	for _, o := range r.Objects {
		if pod := podOf(decode(t, o)); pod != nil && o.Kind() == "Deployment" {
			return startPod(t, r.Objects, &pod.Spec)
		}
	}
	t.Fatal("the release has no Deployment")
	return nil
}

func startPod(t *testing.T, objects []Object, pod *corev1.PodSpec) *weir {
	t.Helper()
	c := pod.Containers[0]
	if len(pod.InitContainers) > 0 {
		c = pod.InitContainers[0]
	}
	if (c.Name != "weir" && c.Name != "history") || (c.Command[0] != "/bin/weir" && c.Command[0] != "/bin/ratelimit") {
		t.Fatalf("container %s runs %v, which is not weir in its image", c.Name, c.Command)
	}
	files := mountAll(t, objects, pod, &c)
	w := &weir{env: make(map[string]string), descriptors: files.here("/etc/weir/descriptors")}
	for _, e := range c.Env {
		w.env[e.Name] = files.here(e.Value)
	}
	for _, name := range []string{"GRPC_PORT", "PORT", "DEBUG_PORT"} {
		if port := w.env[name]; port != "" && port != "0" {
			w.env[name] = strconv.Itoa(process.Port(t))
		}
	}
	w.admin, w.http = "http://127.0.0.1:"+w.env["DEBUG_PORT"], "http://127.0.0.1:"+w.env["PORT"]
	if w.env["PROMETHEUS_ADDR"] != "" {
		address := process.Addr(t)
		w.env["PROMETHEUS_ADDR"], w.statistics = address, "http://"+address
	}
	w.grpc = w.env["GRPC_UDS"]
	if w.grpc == "" {
		w.grpc = "127.0.0.1:" + w.env["GRPC_PORT"]
	}
	var env []string
	for name, value := range w.env {
		env = append(env, name+"="+value)
	}
	var args []string
	for _, arg := range c.Args {
		args = append(args, files.here(arg))
	}
	name := filepath.Base(c.Command[0])
	w.process = process.Start(t, name, env, filepath.Join(filepath.Dir(weirBinary), name), args...)
	if c.ReadinessProbe.HTTPGet != nil {
		w.process.AwaitReady(t, answers(w.admin+c.ReadinessProbe.HTTPGet.Path, 200))
	} else {
		w.process.AwaitReady(t, healthy(t, w.grpc))
	}
	return w
}

// mounts are the folders that stand for a container's mounts, by the path that they have in it.
type mounts map[string]string

// here is where a file of the container is.
func (m mounts) here(path string) string {
	for at, folder := range m {
		if path == at || strings.HasPrefix(path, at+"/") {
			return folder + strings.TrimPrefix(path, at)
		}
	}
	return path
}

// under is where a folder of the container is: one of the mounts, or one that holds them.
func (m mounts) under(path string) string {
	for at, folder := range m {
		if above, holds := strings.CutPrefix(at, path+"/"); holds {
			return strings.TrimSuffix(folder, above)
		}
	}
	return m.here(path)
}

// mountAll makes the folders as the kubelet does. Each file of a Secret that is not among the objects holds "secret".
func mountAll(t *testing.T, objects []Object, pod *corev1.PodSpec, c *corev1.Container) mounts {
	t.Helper()
	base, err := os.MkdirTemp("", "w") // short, as the path of a socket may have 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	folders := make(mounts)
	for i, m := range c.VolumeMounts {
		folder := filepath.Join(base, strconv.Itoa(i), m.MountPath)
		folders[m.MountPath] = folder
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, v := range pod.Volumes {
			if v.Name == m.Name {
				writeMount(t, folder, filesOf(objects, &v, c))
			}
		}
	}
	return folders
}

// filesOf are the files of a volume.
func filesOf(objects []Object, v *corev1.Volume, c *corev1.Container) map[string]string {
	files := make(map[string]string)
	add := func(kind, data, name string) {
		for _, o := range objects {
			if data, ok := o.At(data).(map[string]any); ok && o.Kind() == kind && o.Name() == name {
				for key, value := range data {
					files[key] = text(value)
				}
			}
		}
	}
	switch {
	case v.ConfigMap != nil:
		add("ConfigMap", "data", v.ConfigMap.Name)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			add("ConfigMap", "data", source.ConfigMap.Name)
		}
	case v.Secret != nil:
		add("Secret", "stringData", v.Secret.SecretName)
		for _, e := range c.Env {
			name := filepath.Base(e.Value)
			if strings.Contains(e.Value, "/"+strings.TrimPrefix(v.Name, "weir-")+"/") && files[name] == "" {
				files[name] = "secret"
			}
		}
	}
	return files
}

// writeMount writes files below ..data, with links to them beside it, and replaces what was there in one step.
func writeMount(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if len(files) == 0 {
		return
	}
	version := "..v" + strconv.FormatInt(time.Now().UnixNano(), 10)
	fatal := func(err error) {
		if err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	fatal(os.Mkdir(filepath.Join(folder, version), 0o700))
	for name, content := range files {
		fatal(os.WriteFile(filepath.Join(folder, version, name), []byte(content), 0o600))
		fatal(os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)))
	}
	fatal(os.Symlink(version, filepath.Join(folder, "..next")))
	fatal(os.Rename(filepath.Join(folder, "..next"), filepath.Join(folder, "..data")))
}

// call runs weir call, or another command, and gives what it printed and how it ended.
func call(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := exec.Command(weirBinary, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

func body(t *testing.T, url string, header http.Header) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(content), answer.Header
}
