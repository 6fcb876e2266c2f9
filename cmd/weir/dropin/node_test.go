package dropin_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The test binary is three programs: the tests; one test again, in namespaces of its own; and what makes a container
// and then becomes what runs there.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == containerArgument {
		os.Exit(becomeContainer(os.Args[2]))
	}
	flag.Parse()
	if hosts := os.Getenv(nodeVariable); hosts != "" {
		if err := makeNode(hosts); err != nil {
			log.Fatal("making a node: ", err)
		}
	}
	os.Exit(m.Run())
}

// nodeVariable holds, on a node, the path of its /etc/hosts.
const nodeVariable = "WEIR_DROPIN_NODE"

// nodeNames are what a node's /etc/hosts knows: all that the samples name, each at its loopback address.
var nodeNames = []string{
	"localhost", "redis", "redis.redis.svc", "ratelimit", "ratelimit.default.svc.cluster.local",
	"envoy-gateway", "envoy-ratelimit", "envoy-ratelimit.envoy-gateway-system.svc.cluster.local",
}

// onNode runs a test in namespaces of its own, a node with one loopback device: there every port is free, and names are
// what its /etc/hosts makes of them. Around it the test runs a second time, as another process.
func onNode(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(nodeVariable) != "" {
		test(t)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 "+strings.Join(nodeNames, " ")+"\n::1 ip6-localhost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v="+strconv.FormatBool(testing.Verbose()),
		"-test.short="+strconv.FormatBool(testing.Short()))
	again.Env = append(os.Environ(), nodeVariable+"="+hosts, process.WeirVariable+"="+process.Weir(t))
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 { // it is root there, and nothing more here
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	var said bytes.Buffer
	again.Stdout, again.Stderr = &said, &said
	err = again.Run()
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended):
		t.Fatalf("no namespaces here, and nothing is proved: %v. This test needs those of network, mounts, processes and names: "+
			"be root, or allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces)", err)
	case err != nil:
		t.Errorf("on a node of its own (%v):\n%s", err, &said)
	default:
		t.Logf("on a node of its own:\n%s", &said)
	}
}

// makeNode makes the namespaces of this process a node.
func makeNode(hosts string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to itself: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("giving names at /etc/hosts: %w", err)
	}
	if err := process.LoopbackUp(); err != nil {
		return err
	}
	_, err := net.LookupHost("envoy-ratelimit")
	return err
}
