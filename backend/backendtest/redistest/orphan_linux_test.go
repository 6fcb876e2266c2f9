package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// orphanMaker makes this test binary start a server and wait to be killed.
const orphanMaker = "REDISTEST_ORPHAN_MAKER"

func TestNoServerOutlivesItsTests(t *testing.T) {
	if dir := os.Getenv(orphanMaker); dir != "" {
		s, err := StartSingle(dir)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\nstarted at %s\n", s.Addr)
		time.Sleep(time.Minute)
		return
	}
	tests := exec.Command(os.Args[0], "-test.run=^TestNoServerOutlivesItsTests$")
	tests.Env = append(os.Environ(), orphanMaker+"="+t.TempDir())
	printed, err := tests.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tests.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tests.Wait() }() // it is killed
	defer func() { _ = tests.Process.Kill() }()
	var addr string
	for lines := bufio.NewScanner(printed); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "started at ")
		if !strings.Contains(addr, ":") {
			addr = ""
		}
	}
	if addr == "" {
		t.Fatal("the tests that are to be killed have started no server")
	}
	if err := tests.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(process.Hang); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatalf("the server at %s still answers %v after its tests were killed", addr, process.Hang)
		}
	}
}
