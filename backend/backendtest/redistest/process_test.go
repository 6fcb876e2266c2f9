package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestTakenPortIsNoticed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	binary, err := findBinary("")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "redis.conf")
	text := settings{}.config(l.Addr().(*net.TCPAddr).Port, "")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log Output
	if _, err = run(&log, "eady to accept connections", t.TempDir(), nil, binary, file); !errors.Is(err, errTaken) {
		t.Errorf("a server on a taken port ends with %v, want errTaken, after which another port is tried", err)
	}
}

func TestClusterPortsHaveABusPort(t *testing.T) {
	for range 20 {
		port, err := freePort(true)
		if err != nil {
			t.Fatal(err)
		}
		if !isFree(port) || !isFree(port+busOffset) {
			t.Errorf("port %d or its bus port is taken", port)
		}
	}
}

func TestLongLogsKeepTheirBeginning(t *testing.T) {
	var o Output
	for range maxKept / 1024 {
		fmt.Fprintf(&o, "%1024d", 1)
	}
	fmt.Fprint(&o, "more")
	if got, want := o.String()[maxKept:], "\n... and 4 bytes more"; got != want {
		t.Errorf("after %d bytes the log says %q, want %q", maxKept, got, want)
	}
}
