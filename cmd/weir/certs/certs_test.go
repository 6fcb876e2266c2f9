package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/cmd/weir/certs"
)

// quiet is a log that a test does not read.
func quiet(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// serve echoes what it gets over TLS, and returns its address.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	lis, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return lis.Addr().String()
}

// connect makes a connection and sends a byte there and back: only then has the server judged the client.
func connect(t *testing.T, address string, config *tls.Config) (*tls.Conn, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, echo(conn)
}

func echo(conn *tls.Conn) error {
	if _, err := conn.Write([]byte{7}); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

func mustConnect(t *testing.T, address string, config *tls.Config) *tls.Conn {
	t.Helper()
	conn, err := connect(t, address, config)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// trusting is a client of weir that knows an authority and shows a certificate, if it has one.
func trusting(authority *certstest.Authority, pair ...tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	c := &tls.Config{RootCAs: roots, ServerName: "weir"}
	if len(pair) > 0 {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair[0], nil }
	}
	return c
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// mount is a Secret with a certificate, its key and authorities.
func mount(t *testing.T, dir string, cert, key, ca []byte) certs.Files {
	t.Helper()
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": ca})
	at := func(name string) string { return filepath.Join(dir, name) }
	return certs.Files{Cert: at("tls.crt"), Key: at("tls.key"), CA: at("ca.crt")}
}

func server(t *testing.T, f certs.Files) string {
	t.Helper()
	config, err := certs.Server(f, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, config)
}

func TestNewConnectionsUseTheCurrentCertificate(t *testing.T) {
	authority := certstest.New(t, "authority")
	files := certs.Files{Cert: filepath.Join(t.TempDir(), "c.pem"), Key: filepath.Join(t.TempDir(), "k.pem")}
	cert, key := authority.Issue(t, "weir", "one")
	write(t, files.Cert, cert)
	write(t, files.Key, key)
	address := server(t, files)
	first := mustConnect(t, address, trusting(authority))
	server := func() string { // who a new connection says that it is to
		return mustConnect(t, address, trusting(authority)).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	for _, name := range []string{"two", "three"} {
		cert, key := authority.Issue(t, "weir", name)
		was := server()
		write(t, files.Cert, cert)
		if got := server(); got != was {
			t.Errorf("while only one of two files is new, connections get %q, want %q as before", got, was)
		}
		write(t, files.Key, key)
		if got := server(); got != "weir "+name {
			t.Errorf("with both files new, connections get %q, want %q", got, "weir "+name)
		}
	}
	if err := echo(first); err != nil {
		t.Errorf("a connection that was there broke as certificates were replaced: %v", err)
	}
}

func TestBadFilesKeepTheLastCertificates(t *testing.T) {
	authority, dir := certstest.New(t, "authority"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	_, otherKey := authority.Issue(t, "weir")
	files := mount(t, dir, cert, key, authority.PEM)
	var log bytes.Buffer
	config, err := certs.Server(files, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	address, client := serve(t, config), trusting(authority, authority.KeyPair(t, "envoy"))
	lines := func() string { // of three connections, which must be made
		log.Reset()
		for range 3 {
			mustConnect(t, address, client)
		}
		return log.String()
	}
	remove := func(name string) func() {
		return func() {
			if err := os.Remove(filepath.Join(dir, "..data", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func()
		says  string
	}{
		{"a mismatched key", func() { mount(t, dir, cert, otherKey, authority.PEM) }, files.Key},
		{"no certificate in it", func() { mount(t, dir, []byte("nothing"), key, authority.PEM) }, files.Cert},
		{"no authority in it", func() { mount(t, dir, cert, key, nil) }, files.CA},
		{"no key", remove("tls.key"), files.Key},
		{"no authorities", remove("ca.crt"), files.CA},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spoil()
			got := lines()
			if strings.Count(got, "\n") != 1 || !strings.Contains(got, tc.says) || !strings.Contains(got, "level=WARN") {
				t.Errorf("the log has %q, want one warning that names %s", got, tc.says)
			}
			if strings.Contains(got, "PRIVATE") {
				t.Error("the log holds the key")
			}
			mount(t, dir, cert, key, authority.PEM)
			if got := lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "can be used again") {
				t.Errorf("the log has %q, want one line that the files can be used again", got)
			}
		})
	}
}

func TestFirstErrorNamesTheFile(t *testing.T) {
	authority, dir := certstest.New(t, "authority"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	good := mount(t, dir, cert, key, authority.PEM)
	away, empty := filepath.Join(dir, "away.pem"), filepath.Join(dir, "empty.pem")
	write(t, empty, nil)
	for _, file := range []string{away, empty} {
		for _, files := range []certs.Files{
			{Cert: file, Key: good.Key}, {Cert: good.Cert, Key: file}, {Cert: good.Cert, Key: good.Key, CA: file},
		} {
			_, server := certs.Server(files, quiet(t))
			_, client := certs.Client(files, quiet(t))
			for _, err := range []error{server, client} {
				if err == nil || !strings.Contains(err.Error(), file) {
					t.Errorf("of %+v the error is %v, want one that names %s", files, err, file)
				}
			}
		}
	}
	if _, err := certs.Server(certs.Files{Cert: good.Cert}, quiet(t)); err == nil {
		t.Error("a server started without a key")
	}
	if _, err := certs.Server(certs.Files{Cert: good.Cert, Key: good.Key, SAN: "envoy"}, quiet(t)); err == nil {
		t.Error("a server started that should ask for a name, and asks for no certificate")
	}
	if _, err := certs.Client(certs.Files{Key: good.Key}, quiet(t)); err == nil {
		t.Error("a client started with a key and no certificate")
	}
}

func TestOnlyClientsOfTheCurrentAuthorityConnect(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			old, next, dir := certstest.New(t, "old"), certstest.New(t, "next"), t.TempDir()
			cert, key := old.Issue(t, "weir")
			address := server(t, mount(t, dir, cert, key, old.PEM))
			client := func(by *certstest.Authority) *tls.Config {
				c := trusting(old, by.KeyPair(t, "envoy"))
				c.MinVersion, c.MaxVersion = version, version
				c.ClientSessionCache = tls.NewLRUClientSessionCache(10) // one that would come back without being checked
				return c
			}
			ofOld, ofNext, nobody := client(old), client(next), trusting(old)
			there := mustConnect(t, address, ofOld)
			mustConnect(t, address, ofOld)
			for name, c := range map[string]*tls.Config{"no certificate": nobody, "another's": ofNext} {
				if _, err := connect(t, address, c); err == nil {
					t.Errorf("a client with %s got in", name)
				}
			}
			mount(t, dir, cert, key, next.PEM)
			if _, err := connect(t, address, ofOld); err == nil {
				t.Error("a client got in whose authority was taken away")
			}
			mustConnect(t, address, ofNext)
			if err := echo(there); err != nil {
				t.Errorf("a connection that was there broke as the authorities were replaced: %v", err)
			}
		})
	}
}

func TestClientsMustHaveTheConfiguredName(t *testing.T) {
	authority, dir := certstest.New(t, "authority"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	files := mount(t, dir, cert, key, authority.PEM)
	for _, tc := range []struct {
		san, client string
		in          bool
	}{
		{"envoy.mesh", "envoy.mesh", true},
		{"envoy.mesh", "*.mesh", true},
		{"envoy.mesh", "other.mesh", false},
		{"envoy.mesh", "10.0.0.1", false},
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"spiffe://mesh/ns/envoy", "spiffe://mesh/ns/envoy", true},
		{"spiffe://mesh/ns/envoy", "spiffe://mesh/ns/other", false},
	} {
		files.SAN = tc.san
		address := server(t, files)
		_, err := connect(t, address, trusting(authority, authority.KeyPair(t, tc.client)))
		if in := err == nil; in != tc.in {
			t.Errorf("a client whose certificate is for %s, where %s must come: in %t (%v), want %t", tc.client, tc.san, in, err, tc.in)
		}
	}
}

func TestClientUsesTheCurrentFiles(t *testing.T) {
	for form, client := range map[string]func(certs.Files) (func() *tls.Config, error){
		"gRPC": func(f certs.Files) (func() *tls.Config, error) {
			c, err := certs.Client(f, quiet(t))
			return func() *tls.Config { return c }, err
		},
		"each connection": func(f certs.Files) (func() *tls.Config, error) {
			return certs.Connections(f, false, quiet(t))
		},
	} {
		t.Run(form, func(t *testing.T) {
			old, next, dir := certstest.New(t, "old"), certstest.New(t, "next"), t.TempDir()
			cert, key := old.Issue(t, "one")
			files := mount(t, dir, cert, key, old.PEM)
			files.SAN = "weir"
			config, err := client(files)
			if err != nil {
				t.Fatal(err)
			}
			shown := make(chan string, 100) // who the client says that it is
			serverOf := func(by *certstest.Authority) string {
				return serve(t, &tls.Config{
					Certificates: []tls.Certificate{by.KeyPair(t, "weir")}, ClientAuth: tls.RequireAnyClientCert,
					VerifyConnection: func(s tls.ConnectionState) error {
						shown <- s.PeerCertificates[0].Subject.CommonName
						return nil
					}})
			}
			ofOld, ofNext := serverOf(old), serverOf(next)
			meet := func(address, stranger, show string) {
				t.Helper()
				mustConnect(t, address, config())
				if got := <-shown; got != show {
					t.Errorf("the client shows the certificate of %q, want %q", got, show)
				}
				if _, err := connect(t, stranger, config()); err == nil {
					t.Error("the client trusts a server of an authority that is not in its file")
				}
			}
			meet(ofOld, ofNext, "one")
			cert, key = old.Issue(t, "two")
			mount(t, dir, cert, key, next.PEM)
			meet(ofNext, ofOld, "two")
		})
	}
}

func TestClientAcceptsOnlyTrustedServers(t *testing.T) {
	ours, theirs, public := certstest.New(t, "ours"), certstest.New(t, "theirs"), certstest.Public(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, ours.PEM)
	serverOf := func(by *certstest.Authority, names ...string) (port string) {
		address := serve(t, &tls.Config{Certificates: []tls.Certificate{by.KeyPair(t, names...)}, NextProtos: []string{"h2"}})
		_, port, _ = net.SplitHostPort(address)
		return port
	}
	right, other := serverOf(ours, "localhost", "127.0.0.1"), serverOf(ours, "redis")
	stranger := serverOf(theirs, "localhost", "127.0.0.1")
	anybody := serverOf(public, "localhost", "127.0.0.1", "redis")
	for _, tc := range []struct {
		what, ca, san string
		anyName       bool
		port          string
		in            bool
	}{
		{"a server that is who it says", ca, "", false, right, true},
		{"a server with another's name", ca, "", false, other, false},
		{"a server with another's name, which is allowed", ca, "", true, other, true},
		{"a server of a stranger", ca, "", false, stranger, false},
		{"a server of a stranger, where any name is allowed", ca, "", true, stranger, false},
		{"a server of an authority that the system does not know", "", "", false, right, false},
		{"a server of one that it knows", "", "", false, anybody, true},
		{"such a server, where a file has the authorities", ca, "", false, anybody, false},
		{"such a server, where any name is allowed", ca, "", true, anybody, false},
		{"such a server, where a name is asked for", ca, "redis", false, anybody, false},
		{"a server with the name that is asked for", ca, "redis", false, other, true},
		{"a server with that of its address alone", ca, "redis", false, right, false},
		{"a server with that of its address alone, where any name would be allowed", ca, "redis", true, right, false},
	} {
		files := certs.Files{CA: tc.ca, SAN: tc.san}
		next, err := certs.Connections(files, tc.anyName, quiet(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"localhost:", "127.0.0.1:"} {
			if _, err := connect(t, host+tc.port, next()); (err == nil) != tc.in {
				t.Errorf("%s, at %s: %v; in should be %t", tc.what, host, err, tc.in)
			}
		}
		config, err := certs.Client(files, quiet(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connect(t, "localhost:"+tc.port, config); !tc.anyName && (err == nil) != tc.in {
			t.Errorf("%s, for gRPC: %v; in should be %t", tc.what, err, tc.in)
		}
		_, err = connect(t, "127.0.0.1:"+right, config)
		if tc.san == "" && (err == nil || !strings.Contains(err.Error(), "IP address")) {
			t.Errorf("%v; want an error that the name is not known: the library does not tell an address", err)
		}
	}
}
