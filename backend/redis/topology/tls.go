package topology

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// TLSConfig is how connections are encrypted. The files are PEM; they are read for every new connection, so a renewed
// certificate needs no restart.
type TLSConfig struct {
	// Enabled turns TLS on for all servers. For a server that is written as rediss:// it is on anyway.
	Enabled bool

	// CAFile holds the authorities to trust, instead of those of the system.
	CAFile string

	// CertFile and KeyFile are the client's certificate and key, for servers that ask for one.
	CertFile, KeyFile string

	// ServerName is the name that the certificate of every server must have, sentinels among them, instead of the host
	// in its address. It goes before SkipHostnameVerification.
	ServerName string

	// SkipHostnameVerification accepts a certificate of another name that a trusted authority has signed; without a
	// CAFile that is any public one.
	SkipHostnameVerification bool
}

// keepAlive finds out within 45 s that the other side of an idle connection is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// dialer opens connections, with TLS or without.
type dialer struct {
	net    net.Dialer
	files  TLSConfig
	opened *Connections // nil counts none

	mu   sync.Mutex
	last *tls.Config // as last read
}

// newDialer makes a dialer that connects, with the TLS handshake, within the timeout. The files must be readable now.
func newDialer(files TLSConfig, timeout time.Duration) (*dialer, error) {
	d := &dialer{net: net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}, files: files, opened: new(Connections)}
	if (files.CertFile == "") != (files.KeyFile == "") {
		return nil, errors.New("redis: the client's certificate and its key go together: name both files or none")
	}
	_, err := d.config()
	return d, err
}

// dial returns what opens a connection to a server that is reached as another is: with TLS if the configuration or the
// server's URL wants it, and to a unix socket, without TLS, only if the URL names one. No server names a socket.
func (d *dialer) dial(like target) func(ctx context.Context, network, addr string) (net.Conn, error) {
	network := cmp.Or(like.network, "tcp")
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if network != "unix" && (like.tls || d.files.Enabled) {
			return d.opened.count(d.secure(ctx, network, addr))
		}
		return d.opened.count(d.net.DialContext(ctx, network, addr))
	}
}

func (d *dialer) secure(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.net.Timeout)
	defer cancel()
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("redis: TLS to %s: %w", addr, err)
	}
	config.ServerName = cmp.Or(d.files.ServerName, host)
	raw, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("redis: TLS to %s: %w", addr, errors.Join(err, raw.Close()))
	}
	return conn, nil
}

// config reads the files. While they cannot be used, as between a new certificate and its key, the last ones hold.
func (d *dialer) config() (*tls.Config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	config, err := d.files.load()
	switch {
	case err == nil:
		d.last = config
	case d.last == nil:
		return nil, fmt.Errorf("redis: TLS: %w", err)
	}
	return d.last.Clone(), nil
}

func (c *TLSConfig) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", c.CertFile, c.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.SkipHostnameVerification && c.ServerName == "" {
		config.InsecureSkipVerify = true // what is left of it is in VerifyConnection
		roots := config.RootCAs
		config.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, roots) }
	}
	return config, nil
}

// verifyChain does what the TLS library does but for the name.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	intermediates := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates})
	return err
}
