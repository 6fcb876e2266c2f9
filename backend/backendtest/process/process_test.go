package process

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
)

func TestAHeldPortIsTheTestsAlone(t *testing.T) {
	addr := Addr(t)
	for range 2 { // again after it was killed
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("a server cannot listen on a port that is held for it: %v", err)
		}
		l.Close()
	}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == addr {
			t.Fatalf("the kernel gave %s to somebody else, who would answer in the place of the test's server", addr)
		}
	}
}

func TestABusPortIsHeldToo(t *testing.T) {
	port, release, err := HoldBusPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, _, err := hold(port + busOffset); err == nil {
		t.Errorf("port %d was given to two tests: a node of a cluster cannot talk to the others", port+busOffset)
	}
}

func TestAProcessThatEndsBeforeItIsReadySaysWhy(t *testing.T) {
	_, err := Launch("sh", exec.Command("sh", "-c", "echo no such file; exit 3"), new(Output), "ready")
	if err == nil || !strings.Contains(err.Error(), "no such file") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Launch tells %v, want what the process printed and how it ended", err)
	}
}

func TestReadyIsWhatThisRunPrinted(t *testing.T) {
	log := new(Output)
	fmt.Fprintln(log, "ready")
	if _, err := Launch("sh", exec.Command("true"), log, "ready"); err == nil {
		t.Error("a process counts as ready by what the one before it printed")
	}
}
