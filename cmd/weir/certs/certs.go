// Package certs makes TLS configurations from files that may be replaced while weir runs, as a Kubernetes Secret's are.
package certs

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
)

// Files are what a TLS configuration is made of; all are PEM. They are read again for each handshake, so a connection
// is made with what they hold then, and those that are there stay. Files that cannot be used leave the last good ones
// in force, as do those that are no regular files or are longer than 1 MiB. The log has a line for each reason, and one
// when it ends.
type Files struct {
	// Cert and Key are this side's certificate, with those between it and its authority, and its key.
	Cert, Key string
	// CA holds the authorities that the other side's certificate must be by, instead of those of the system.
	CA string
	// SAN is a subject alternative name that the other side's certificate must have: a DNS name or an IP address, of a
	// client a URI too.
	SAN string
}

// h2 is the protocol that gRPC wants to be agreed on in the handshake.
const h2 = "h2"

// Server returns the configuration of a server, which needs Cert and Key. With a CA clients must have a certificate by
// it, of the name SAN if there is one; the authorities of the system are not asked. Its errors name the file at fault.
func Server(f Files, log *slog.Logger) (*tls.Config, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("a server needs a certificate and its key")
	}
	if f.SAN != "" && f.CA == "" {
		return nil, fmt.Errorf("clients cannot be asked for the name %q without a CA that their certificates are by", f.SAN)
	}
	pair, clients, err := f.watch(log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{h2},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{h2}, Certificates: []tls.Certificate{pair.now()}}
			if f.CA != "" {
				c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.now()
				c.SessionTicketsDisabled = true // a ticket would spare a client the check, under a CA that is gone too
			}
			if f.SAN != "" {
				c.VerifyConnection = func(s tls.ConnectionState) error { return checkName(s.PeerCertificates[0], f.SAN) }
			}
			return c, nil
		},
	}, nil
}

// Client returns the configuration of a gRPC client, which takes it once. Cert and Key are optional; without a CA the
// system's authorities are trusted, and SAN is the name that the server's certificate must have, the one that it is
// reached by if empty. A server that is reached by its IP address needs SAN. Its errors name the file at fault.
func Client(f Files, log *slog.Logger) (*tls.Config, error) {
	pair, servers, err := f.watchClient(log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{h2}, ServerName: f.SAN,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now := pair.now()
			return &now, nil
		},
		// The library takes a client's authorities once, so its own check is replaced by the same with those of now.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			name := cmp.Or(f.SAN, s.ServerName)
			if name == "" { // the library does not tell an IP address
				return errors.New("a server that is reached by an IP address needs the name of its certificate: say it")
			}
			return verify(s, name, servers.now())
		},
	}, nil
}

// Connections is Client for callers who ask for the configuration of each connection. An IP address needs no SAN then.
// If anyName is set, and SAN is not, a server may have a certificate of any name that a trusted authority has signed.
func Connections(f Files, anyName bool, log *slog.Logger) (next func() *tls.Config, err error) {
	pair, servers, err := f.watchClient(log)
	if err != nil {
		return nil, err
	}
	return func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.SAN, RootCAs: servers.now()}
		if f.Cert != "" {
			c.Certificates = []tls.Certificate{pair.now()}
		}
		if anyName && f.SAN == "" {
			c.InsecureSkipVerify = true // what is left of it is in VerifyConnection
			c.VerifyConnection = func(s tls.ConnectionState) error { return verify(s, "", c.RootCAs) }
		}
		return c
	}, nil
}

// verify checks a server's certificate as the TLS library does, but for the name if that is empty.
func verify(s tls.ConnectionState, name string, authorities *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: authorities, Intermediates: between})
	return err
}

// checkName returns an error unless a client's certificate is for a name.
func checkName(c *x509.Certificate, name string) error {
	for _, uri := range c.URIs {
		if uri.String() == name {
			return nil
		}
	}
	if err := c.VerifyHostname(name); err != nil {
		return fmt.Errorf("the client's certificate is not for %s: %w", name, err)
	}
	return nil
}
