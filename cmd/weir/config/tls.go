package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/weirproxy/weir/cmd/weir/certs"
)

// checkTLS refuses a gRPC port that is meant to be closed and would be open.
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

// GRPCTLS returns the TLS of the gRPC port, nil for none. Its error names the variables and the file at fault. Log hears
// of files that are wrong later.
func (s *Settings) GRPCTLS(log *slog.Logger) (*tls.Config, error) {
	if !s.ServerTLS {
		return nil, nil
	}
	files, variables := certs.Files{Cert: s.ServerCert, Key: s.ServerKey}, "GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY"
	if s.ClientCA != "" {
		files.CA, files.SAN = s.ClientCA, s.ClientSAN
		variables += ", GRPC_CLIENT_TLS_CACERT"
	}
	config, err := certs.Server(files, log)
	if err != nil {
		return nil, fmt.Errorf("environment variables %s: %w", variables, err)
	}
	return config, nil
}
