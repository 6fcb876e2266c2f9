package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
)

// AdminAddress returns HOST:PORT where this machine reaches the admin port of a weir serve that has the same environment:
// 127.0.0.1:6070 unless DEBUG_HOST or DEBUG_PORT say otherwise. A weir that listens everywhere is asked on the loopback
// address. Other variables are not looked at.
func AdminAddress() (string, error) {
	var at struct {
		Host string `env:"DEBUG_HOST,default=127.0.0.1"`
		Port uint16 `env:"DEBUG_PORT,default=6070"`
	}
	if err := Process().fill(&at); err != nil {
		return "", fmt.Errorf("%w (--admin names a port in any case)", err)
	}
	if err := require(at.Port > 0, "DEBUG_PORT", at.Port, "weir serve chose a free port: --admin says which"); err != nil {
		return "", err
	}
	return address(reachable(at.Host), at.Port), nil
}

// GRPCAddress returns where this machine reaches the gRPC port likewise: 127.0.0.1:8081 unless GRPC_HOST or GRPC_PORT say
// otherwise, or unix: and the path of GRPC_UDS. It is not checked.
func GRPCAddress() string {
	if path := os.Getenv("GRPC_UDS"); path != "" {
		return "unix:" + path
	}
	return net.JoinHostPort(reachable(os.Getenv("GRPC_HOST")), cmp.Or(os.Getenv("GRPC_PORT"), "8081"))
}

// reachable returns a host by which a server that listens on one is reached.
func reachable(host string) string {
	switch host = strings.Trim(host, "[]"); host {
	case "", "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "::1"
	}
	return host
}
