package charttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
)

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary, promtoolBinary, prometheusBinary string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm/charttest:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if envoyBinary, err = find("envoy", "what Envoy sees"); err != nil {
		return 0, err
	}
	if promtoolBinary, err = find("promtool", "which alerts fire"); err != nil {
		return 0, err
	}
	if prometheusBinary, err = find("prometheus", "what a dashboard shows"); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "weir-chart-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	weirBinary = filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-o", weirBinary, "./cmd/weir")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building weir: %w\n%s", err, out)
	}
	if err := os.Link(weirBinary, filepath.Join(dir, "ratelimit")); err != nil { // as the image has it
		return 0, err
	}
	return m.Run(), nil
}

// find looks for a tool on PATH and where make tools installs it.
func find(name, about string) (string, error) {
	if onPath, err := exec.LookPath(name); err == nil {
		return onPath, nil
	}
	installed, err := filepath.Abs(filepath.Join(root, ".tools", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(installed); err != nil {
		return "", fmt.Errorf("no %s on PATH or in .tools, and one of these tests is about %s: run make tools", name, about)
	}
	return installed, nil
}

// run starts a process that ends with its test, unless it is killed before. What it printed is shown if the test fails.
func run(t *testing.T, env []string, binary string, args ...string) *os.Process {
	t.Helper()
	return runLogging(t, new(lockedBuffer), env, binary, args...)
}

func runLogging(t *testing.T, log *lockedBuffer, env []string, binary string, args ...string) *os.Process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", binary, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s %v printed:\n%s", filepath.Base(binary), args, log.String())
		}
	})
	return cmd.Process
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// awaitStatus asks a URL until it answers with a status.
func awaitStatus(t *testing.T, url string, status int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		answer, err := http.Get(url)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == status {
				return
			}
			err = fmt.Errorf("it answers %d", answer.StatusCode)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer %d: %v", url, status, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitHealth asks by gRPC, as the kubelet does, until weir is healthy.
func awaitHealth(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	deadline := time.Now().Add(time.Minute)
	for {
		answer, err := health.NewHealthClient(conn).Check(t.Context(), &health.HealthCheckRequest{})
		if answer.GetStatus() == health.HealthCheckResponse_SERVING {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gRPC port is not healthy: %v, %v", answer, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ports are those that freePort gave away.
var ports sync.Map

// freePort is a port that nobody listens on. It lies below those that the kernel gives to whoever connects or listens
// without naming one, so that it is free still when it is used, and apart from those of redistest and child.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 26_000 + rand.IntN(6_000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		l.Close()
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port
		}
	}
	t.Fatal("of 1,000 ports none is free")
	return 0
}

// weir is a process that runs as a rendered container says.
type weir struct {
	env         map[string]string
	admin, http string // URLs
	statistics  string // likewise, without a path
	grpc        string // host:port, or the path of a socket
	descriptors string // the folder of its descriptor files
	log         lockedBuffer
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
			w.env[name] = strconv.Itoa(freePort(t))
		}
	}
	w.admin, w.http = "http://127.0.0.1:"+w.env["DEBUG_PORT"], "http://127.0.0.1:"+w.env["PORT"]
	if w.env["PROMETHEUS_ADDR"] != "" {
		address := fmt.Sprint("127.0.0.1:", freePort(t))
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
	runLogging(t, &w.log, env, filepath.Join(filepath.Dir(weirBinary), filepath.Base(c.Command[0])), args...)
	if c.ReadinessProbe.HTTPGet != nil {
		awaitStatus(t, w.admin+c.ReadinessProbe.HTTPGet.Path, 200)
	} else {
		awaitHealth(t, w.grpc)
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
