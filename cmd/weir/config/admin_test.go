package config

import "testing"

func TestPortsAreThoseOfAServerWithTheSameEnvironment(t *testing.T) {
	for _, c := range []struct{ host, port, socket, admin, grpc string }{
		{"", "", "", "127.0.0.1:6070", "127.0.0.1:8081"},
		{"0.0.0.0", "7070", "", "127.0.0.1:7070", "127.0.0.1:7070"},
		{"::", "7070", "", "[::1]:7070", "[::1]:7070"},
		{"[::]", "7070", "", "[::1]:7070", "[::1]:7070"},
		{"10.0.0.7", "7070", "", "10.0.0.7:7070", "10.0.0.7:7070"},
		{"localhost", "1", "", "localhost:1", "localhost:1"},
		{"10.0.0.7", "7081", "/run/weir.sock", "10.0.0.7:7081", "unix:/run/weir.sock"},
	} {
		for _, name := range []string{"DEBUG", "GRPC"} {
			t.Setenv(name+"_HOST", c.host)
			t.Setenv(name+"_PORT", c.port)
		}
		t.Setenv("GRPC_UDS", c.socket)
		if admin := AdminAddress(); admin != c.admin || GRPCAddress() != c.grpc {
			t.Errorf("of %+v the admin port is %s, gRPC's %s", c, admin, GRPCAddress())
		}
	}
}
