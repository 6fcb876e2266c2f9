package config

import (
	"cmp"
	"net"
	"os"
	"strings"
)

// AdminAddress returns HOST:PORT where this machine reaches the admin port of a weir serve that has the same environment:
// 127.0.0.1:6070 unless DEBUG_HOST or DEBUG_PORT say otherwise. Where it listens everywhere, that is the loopback address.
func AdminAddress() string { return reachable("DEBUG_HOST", "DEBUG_PORT", "6070") }

// GRPCAddress returns where this machine reaches the gRPC port likewise: 127.0.0.1:8081 unless GRPC_HOST or GRPC_PORT say
// otherwise, or unix: and the path of GRPC_UDS.
func GRPCAddress() string {
	if path := os.Getenv("GRPC_UDS"); path != "" {
		return "unix:" + path
	}
	return reachable("GRPC_HOST", "GRPC_PORT", "8081")
}

// reachable returns the address that two variables name, on the loopback address where they name all. It is not checked.
func reachable(hostVariable, portVariable, usualPort string) string {
	host := strings.Trim(os.Getenv(hostVariable), "[]")
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, cmp.Or(os.Getenv(portVariable), usualPort))
}
