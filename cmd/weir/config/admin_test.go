package config

import (
	"strings"
	"testing"
)

func TestTheAdminPortIsThatOfAServerWithTheSameEnvironment(t *testing.T) {
	for _, c := range []struct{ host, port, want, wrong string }{
		{"", "6070", "127.0.0.1:6070", ""},
		{"0.0.0.0", "7070", "127.0.0.1:7070", ""},
		{"::", "7070", "[::1]:7070", ""},
		{"[::]", "7070", "[::1]:7070", ""},
		{"10.0.0.7", "7070", "10.0.0.7:7070", ""},
		{"localhost", "1", "localhost:1", ""},
		{"", "0", "", "DEBUG_PORT=0: weir serve chose a free port: --admin"},
		{"", "none", "", `DEBUG_PORT="none": a port is a number from 0 to 65535 (--admin`},
	} {
		t.Setenv("DEBUG_HOST", c.host)
		t.Setenv("DEBUG_PORT", c.port)
		t.Setenv("REPLICAS", "of no matter here")
		got, err := AdminAddress()
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("DEBUG_HOST=%s DEBUG_PORT=%s is %q, %v; want %q %s", c.host, c.port, got, err, c.want, c.wrong)
		}
	}
}

func TestTheGRPCPortIsThatOfAServerWithTheSameEnvironment(t *testing.T) {
	for _, c := range []struct{ host, port, socket, want string }{
		{"", "", "", "127.0.0.1:8081"},
		{"0.0.0.0", "7081", "", "127.0.0.1:7081"},
		{"[::]", "7081", "", "[::1]:7081"},
		{"10.0.0.7", "7081", "", "10.0.0.7:7081"},
		{"10.0.0.7", "7081", "/run/weir.sock", "unix:/run/weir.sock"},
	} {
		t.Setenv("GRPC_HOST", c.host)
		t.Setenv("GRPC_PORT", c.port)
		t.Setenv("GRPC_UDS", c.socket)
		if got := GRPCAddress(); got != c.want {
			t.Errorf("GRPC_HOST=%s GRPC_PORT=%s GRPC_UDS=%s is %q, want %q", c.host, c.port, c.socket, got, c.want)
		}
	}
}
