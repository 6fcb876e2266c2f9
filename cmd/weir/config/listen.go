package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/connlimit"
)

// Server returns the configuration of the ports and of draining.
func (s *Settings) Server() server.Config {
	grpc := address(s.GRPCHost, s.GRPCPort)
	if s.GRPCUnix != "" {
		grpc = "unix:" + s.GRPCUnix // instead of the port
	}
	c := s.Ports
	c.StartLevel = s.StartLevel
	c.GRPCAddress, c.HTTPAddress, c.AdminAddress = grpc, address(s.Host, s.Port), address(s.DebugHost, s.DebugPort)
	c.DrainDelay, c.DrainTimeout = s.DrainDelay, s.DrainTimeout
	c.Connections = connlimit.Limits{Total: s.MaxConnections, PerClient: s.MaxConnectionsPerClient}
	c.MaxConnectionAge, c.MaxConnectionAgeGrace, c.Profiles = s.MaxConnectionAge, s.MaxConnectionAgeGrace, s.Profiles
	switch {
	case s.ServerTLS && s.ClientCA != "":
		c.NoJSON = "/json is not served, as it would answer without the client certificate that GRPC_CLIENT_TLS_CACERT asks for."
	case !s.JSON:
		c.NoJSON = "/json is not served, as JSON_ENABLED is false."
	}
	return c
}

// address joins a host, in brackets or not, and a port.
func address(host string, port uint16) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
}

// checkAge returns an error for an age of connections so short that the gRPC library panics, as a tenth of it rounds to
// 0.
func checkAge(variable string, age time.Duration) error {
	return require(age == 0 || age >= time.Millisecond, variable, age, "use 0 for no bound, or at least 1ms")
}

// checkTLS returns an error for a gRPC port that is meant to require TLS but would not.
func (s *Settings) checkTLS() error {
	return cmp.Or(
		require(!s.ServerTLS || s.ServerCert != "" && s.ServerKey != "", "GRPC_SERVER_USE_TLS", s.ServerTLS,
			"GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY must name the files of the certificate and its key"),
		require(s.ServerTLS || s.ClientCA == "", "GRPC_CLIENT_TLS_CACERT", s.ClientCA,
			"clients are asked for a certificate only with GRPC_SERVER_USE_TLS=true"),
		require(s.ClientCA != "" || s.ClientSAN == "", "GRPC_CLIENT_TLS_SAN", s.ClientSAN,
			"clients are asked for a certificate only with GRPC_CLIENT_TLS_CACERT"),
	)
}

// GRPCTLS returns the TLS configuration of the gRPC port, nil for none. Its error names the variables and the invalid
// file. Later errors of the files are logged.
func (s *Settings) GRPCTLS(log *slog.Logger) (*tls.Config, error) {
	if !s.ServerTLS {
		return nil, nil
	}
	config, err := certs.Server(certs.Files{Cert: s.ServerCert, Key: s.ServerKey, CA: s.ClientCA, SAN: s.ClientSAN}, log)
	if err != nil {
		err = fmt.Errorf("environment variables GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT: %w", err)
	}
	return config, err
}

// Access returns the access rules of the admin port.
func (s *Settings) Access(log *slog.Logger) *admin.Access {
	access := &admin.Access{TokenFile: s.TokenFile, ReadFile: s.ReadTokenFile, Host: s.DebugHost, Log: log}
	for _, host := range s.AdminHosts {
		access.Hosts = append(access.Hosts, strings.Trim(strings.TrimSpace(host), "[]"))
	}
	return access
}

// AdminAddress returns the HOST:PORT at which this machine reaches the admin port of a weir serve with the same
// environment, by DEBUG_HOST and DEBUG_PORT: 127.0.0.1:6070 by default, and the loopback address if it listens on all
// addresses.
func AdminAddress() string { return reachable("DEBUG_HOST", "DEBUG_PORT", "6070") }

// GRPCAddress returns the address of the gRPC port likewise, by GRPC_HOST and GRPC_PORT: 127.0.0.1:8081 by default; or
// unix: and the path of GRPC_UDS.
func GRPCAddress() string {
	if path := os.Getenv("GRPC_UDS"); path != "" {
		return "unix:" + path
	}
	return reachable("GRPC_HOST", "GRPC_PORT", "8081")
}

// reachable returns the address in two variables, with the loopback address if the host means all addresses. It does
// not check them.
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
