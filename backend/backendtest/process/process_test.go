package process

import (
	"fmt"
	"net"
	"testing"
)

func TestAddrReservesAPortForTheTest(t *testing.T) {
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

// A container listens on all addresses, on some of which others have ports from the kernel.
func TestPortIsFreeOnAllAddresses(t *testing.T) {
	for i := range 2200 {
		addr := "127.0.0.2:0"
		if i >= 2000 {
			addr = fmt.Sprint("0.0.0.0:", Port(t))
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("a server cannot listen on %s: %v", addr, err)
		}
		defer l.Close()
	}
}

// A test that stops its server by hand stops it once more when it ends.
func TestSecondReleaseClosesNoOtherListener(t *testing.T) {
	_, release, err := HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	release()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel gives the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	release()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("the second release closed a listener of somebody else, whose clients are refused: %v", err)
	}
	c.Close()
}
