package dropin_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// containerArgument makes the test binary a container.
const containerArgument = "-container"

// container is what a container runtime is told: the image is weir's, with nothing but the links that it has. Of
// namespaces it has its own for processes, mounts and names; the network is the node's.
type container struct {
	Host    string            // its name
	User    int               // and group
	Command []string          // in place of the image's entry point
	Mounts  map[string]string // folders and files of the node, by the path where they are mounted to be read

	Root string // an empty folder of the node; start makes one
	Weir string // the path of weir on the node; start knows it
}

// start runs a container with this environment until the test ends. A machine that stands still is no outage of Redis.
func (c container) start(t *testing.T, env []string) *process.Process {
	t.Helper()
	c.Root, c.Weir = t.TempDir(), process.Weir(t)
	told, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, containerArgument, string(told))
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "HOSTNAME=" + c.Host,
		weirtest.PatientRedis}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	return process.Run(t, c.Host, cmd)
}

// becomeContainer makes the namespaces of this process the container that it is told, and becomes its command. It
// returns an exit code if it cannot.
func becomeContainer(told string) int {
	var c container
	err := json.Unmarshal([]byte(told), &c)
	if err == nil {
		err = c.make()
	}
	if err == nil {
		err = c.leave()
	}
	if err == nil {
		err = unix.Exec(c.Command[0], c.Command, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "making a container:", err)
	return 1
}

// make builds the container's files at its root, of which nothing can be written.
func (c container) make() error {
	if err := unix.Sethostname([]byte(c.Host)); err != nil {
		return fmt.Errorf("naming it: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to itself: %w", err)
	}
	if err := unix.Mount("tmpfs", c.Root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting its root: %w", err)
	}
	mounts := map[string]string{"/bin/weir": c.Weir, "/etc/hosts": "/etc/hosts", "/dev/null": "/dev/null", "/dev/urandom": "/dev/urandom"}
	for at, what := range c.Mounts {
		mounts[at] = what
	}
	for _, library := range []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"} { // a weir that finds races needs C's
		if target, err := os.Readlink(library); err == nil {
			if err := os.Symlink(target, filepath.Join(c.Root, library)); err != nil {
				return err
			}
		} else if _, err := os.Stat(library); err == nil {
			mounts[library] = library
		}
	}
	for at, what := range mounts {
		if err := bind(what, filepath.Join(c.Root, at)); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", what, at, err)
		}
	}
	for _, name := range []string{"ratelimit", "ratelimit_client", "ratelimit_config_check"} {
		if err := os.Symlink("weir", filepath.Join(c.Root, "bin", name)); err != nil {
			return err
		}
	}
	proc := filepath.Join(c.Root, "proc")
	return cmp.Or(os.Mkdir(proc, 0o755), unix.Mount("proc", proc, "proc", 0, ""),
		unix.Mount("", c.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}

// bind mounts a folder or file, to be read.
func bind(what, at string) error {
	info, err := os.Stat(what)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(at, 0o755)
	} else {
		err = cmp.Or(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644))
	}
	return cmp.Or(err, unix.Mount(what, at, "", unix.MS_BIND, ""))
}

// leave goes to the container's root for good, and becomes its user, without capabilities or a way to others.
func (c container) leave() error {
	if err := cmp.Or(unix.Chroot(c.Root), os.Chdir("/")); err != nil {
		return fmt.Errorf("going to its root: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	err := cmp.Or(syscall.Setgroups(nil), syscall.Setgid(c.User), syscall.Setuid(c.User))
	if users, readErr := os.ReadFile("/proc/self/uid_map"); readErr == nil && strings.HasSuffix(strings.TrimSpace(string(users)), " 1") {
		return nil // whoever runs the tests is no root, and so there is nobody else here to become
	}
	return err
}

// kubernetes adds to an environment what the kubelet gives to each container in a namespace with these services.
func kubernetes(env []string, services ...string) []string {
	env = append(env, "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_PORT=tcp://10.96.0.1:443")
	for i, service := range services {
		name, port, _ := strings.Cut(service, ":")
		name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		address := fmt.Sprint("10.96.0.", 10+i)
		env = append(env, name+"_SERVICE_HOST="+address, name+"_SERVICE_PORT="+port, name+"_PORT=tcp://"+address+":"+port,
			name+"_PORT_"+port+"_TCP=tcp://"+address+":"+port, name+"_PORT_"+port+"_TCP_PROTO=tcp",
			name+"_PORT_"+port+"_TCP_PORT="+port, name+"_PORT_"+port+"_TCP_ADDR="+address)
	}
	return env
}
