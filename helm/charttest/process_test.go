package charttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	health "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // Helm reads schema and templates anew for each release, and drops them
	os.Exit(m.Run())
}

// weir is a process that runs as a rendered container says.
type weir struct {
	env         map[string]string
	admin, http string // URLs
	grpc        string // host:port, or the path of a socket
}

// startRendered runs the container of a release's Deployment here: its command, its environment and the files that are
// mounted into it. Only what a container has for itself is another: ports, and where its files are.
func startRendered(t *testing.T, r *Rendered) *weir {
	t.Helper()
	return startPod(t, r.Objects, r.pod(t, "server"))
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
	program, env, args := contained(t, objects, pod, &c)
	w := &weir{env: env}
	for _, name := range []string{"GRPC_PORT", "PORT", "DEBUG_PORT"} {
		if port := w.env[name]; port != "" && port != "0" {
			w.env[name] = strconv.Itoa(process.Port(t))
		}
	}
	w.admin, w.http = "http://127.0.0.1:"+w.env["DEBUG_PORT"], "http://127.0.0.1:"+w.env["PORT"]
	if w.env["PROMETHEUS_ADDR"] != "" {
		w.env["PROMETHEUS_ADDR"] = process.Addr(t)
	}
	w.grpc = w.env["GRPC_UDS"]
	if w.grpc == "" {
		w.grpc = "127.0.0.1:" + w.env["GRPC_PORT"]
	}
	p := process.Start(t, filepath.Base(program), listed(env), program, args...)
	asked := health.NewHealthClient(weirtest.Dial(t, w.grpc).ClientConn)
	p.AwaitReady(t, func() error { // as the kubelet finds out
		if c.ReadinessProbe.HTTPGet != nil {
			return weirtest.WantStatus(w.admin+c.ReadinessProbe.HTTPGet.Path, 200)
		}
		answer, err := asked.Check(t.Context(), &health.HealthCheckRequest{})
		if err == nil && answer.GetStatus() != health.HealthCheckResponse_SERVING {
			err = fmt.Errorf("the gRPC port is %v", answer.GetStatus())
		}
		return err
	})
	return w
}

// contained is what a container runs, with its files here: one of weir's names in its image, variables and arguments.
func contained(t *testing.T, objects []Object, pod *corev1.PodSpec, c *corev1.Container) (
	program string, env map[string]string, args []string) {
	t.Helper()
	files := mountAll(t, objects, pod, c)
	env = make(map[string]string)
	for _, e := range c.Env {
		env[e.Name] = files.here(e.Value)
	}
	for _, arg := range slices.Concat(c.Command[1:], c.Args) {
		args = append(args, files.here(arg))
	}
	program = filepath.Join(t.TempDir(), filepath.Base(c.Command[0]))
	if err := os.Symlink(process.Weir(t), program); err != nil {
		t.Fatal(err)
	}
	return program, env, args
}

// listed are variables as a process takes them.
func listed(env map[string]string) (list []string) {
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
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
				certstest.Mount(t, folder, filesOf(t, objects, &v, c))
			}
		}
	}
	return folders
}

// filesOf are the files of a volume.
func filesOf(t *testing.T, objects []Object, v *corev1.Volume, c *corev1.Container) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, ref := range namedBy(v) {
		for _, o := range ofKind(objects, ref.kind) {
			if o.Name() != ref.name {
				continue
			}
			switch of := decode(t, o).(type) {
			case *corev1.ConfigMap:
				for key, value := range of.Data {
					files[key] = []byte(value)
				}
			case *corev1.Secret:
				maps.Copy(files, of.Data)
				for key, value := range of.StringData {
					files[key] = []byte(value)
				}
			}
		}
	}
	for _, e := range c.Env {
		name := filepath.Base(e.Value)
		if v.Secret != nil && strings.Contains(e.Value, "/"+strings.TrimPrefix(v.Name, "weir-")+"/") && files[name] == nil {
			files[name] = []byte("secret")
			if strings.HasPrefix(v.Name, "weir-admin") {
				files[name] = []byte("a secret that is long enough")
			}
		}
	}
	return files
}

// runPod runs a pod of a release to its end, with the files that are mounted into it, and gives what it printed and how it
// ended. An address in its arguments may stand for another.
func runPod(t *testing.T, objects []Object, o Object, addresses *strings.Replacer) (string, int) {
	t.Helper()
	pod := podOf(decode(t, o)).Spec
	program, env, args := contained(t, objects, &pod, &pod.Containers[0])
	for i, arg := range args {
		args[i] = addresses.Replace(arg)
	}
	return process.Command(t, listed(env), program, args...)
}
