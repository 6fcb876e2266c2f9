package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// farthest numbers the namespaces of this process.
var farthest atomic.Int64

func farProxy(t testing.TB, target string) (*Far, error) {
	// Processes of other tests have numbers of their own, and so other names and addresses.
	n := (4*int64(os.Getpid()) + farthest.Add(1)) % (1 << 14)
	name := fmt.Sprint("redistest-", n)
	near, far := fmt.Sprint("rt-near-", n), fmt.Sprint("rt-far-", n)
	address := func(host int64) string { return net.IPv4(10, 213, byte(n>>6), byte(n<<2&0xff+host)).String() }
	t.Cleanup(func() { _ = ip("netns", "del", name) }) // it may not be there
	for _, command := range []string{
		"netns add " + name,
		"link add " + near + " type veth peer name " + far,
		"link set " + far + " netns " + name,
		"addr add " + address(1) + "/30 dev " + near,
		"link set " + near + " up",
		"-n " + name + " addr add " + address(2) + "/30 dev " + far,
		"-n " + name + " link set " + far + " up",
	} {
		if err := ip(strings.Fields(command)...); err != nil {
			return nil, err
		}
	}
	l, err := listenIn(name, address(2)+":0")
	if err != nil {
		return nil, err
	}
	p := proxyOn(l, target)
	t.Cleanup(p.Close)
	hole := func(verb string) func(testing.TB) {
		return func(t testing.TB) {
			t.Helper()
			if err := ip("-n", name, "route", verb, "blackhole", address(1)+"/32"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &Far{FaultProxy: p, Real: true, BlackHole: hole("add"), Restore: hole("del")}, nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// listenIn opens a listener in a network namespace, which it stays in wherever it is used.
func listenIn(namespace, addr string) (l net.Listener, err error) {
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		runtime.LockOSThread() // for good: the thread ends with this function, and nobody else gets into the namespace
		var in *os.File
		if in, err = os.Open(filepath.Join("/run/netns", namespace)); err != nil {
			return
		}
		defer in.Close()
		if err = unix.Setns(int(in.Fd()), unix.CLONE_NEWNET); err == nil {
			l, err = net.Listen("tcp", addr)
		}
	}()
	<-opened
	return l, err
}
