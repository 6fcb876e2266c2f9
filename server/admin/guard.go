package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// What a client is told that may change nothing.
const (
	unguarded = "Admin writes need ADMIN_TOKEN_FILE or a loopback DEBUG_HOST."
	foreign   = "Without ADMIN_TOKEN_FILE, admin writes must ask for a loopback address or localhost, not for %q."
	browser   = "Without ADMIN_TOKEN_FILE, admin writes are not for web pages: %v."
	badToken  = "The token is missing or wrong: send what ADMIN_TOKEN_FILE holds as Authorization: Bearer TOKEN " +
		"(weir counters --token-file)."
	noToken = "Admin writes are refused, as the token cannot be read: %v."
)

const maxToken = 4 << 10 // bytes

// Guard decides who may change something on the operator's port. The zero value lets nobody.
type Guard struct {
	// TokenFile holds the token that a request must bring. It is read for every write, so a change needs no restart.
	TokenFile string
	// Host is the port's address. If it is a loopback address and there is no TokenFile, whoever reaches it may write.
	Host string
}

// Check returns an error, which names the variable, if there is a TokenFile that holds no token.
func (g Guard) Check() error {
	if g.TokenFile == "" {
		return nil
	}
	if _, err := g.token(); err != nil {
		return fmt.Errorf("environment variable %w", err)
	}
	return nil
}

// allow returns a refusal unless a request may change something.
func (g Guard) allow(r *http.Request) error {
	if g.TokenFile != "" {
		return g.checkToken(r.Header.Get("Authorization"))
	}
	if !isLoopback(g.Host) {
		return refuse(http.StatusForbidden, unguarded)
	}
	// A browser on this host reaches the port too, and any web page may use it: its own requests say that they come
	// from elsewhere, and those to a name that was pointed here ask for that name.
	if !isLoopback(hostOf(r.Host)) {
		return refuse(http.StatusForbidden, foreign, r.Host)
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return refuse(http.StatusForbidden, browser, err)
	}
	return nil
}

func (g Guard) checkToken(header string) error {
	want, err := g.token()
	if err != nil {
		return refuse(http.StatusForbidden, noToken, err)
	}
	scheme, got, _ := strings.Cut(header, " ")
	// Of equal length whatever the tokens are: the time of a comparison tells nothing about them.
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(got))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return refuse(http.StatusForbidden, badToken)
	}
	return nil
}

// token returns what the file holds now, without the space around it. Its error names the file.
func (g Guard) token() (string, error) {
	f, err := os.Open(g.TokenFile)
	if err != nil {
		return "", fmt.Errorf("ADMIN_TOKEN_FILE: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("ADMIN_TOKEN_FILE: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || len(content) > maxToken {
		return "", fmt.Errorf("ADMIN_TOKEN_FILE: %s must hold a token of 1 to %d bytes", g.TokenFile, maxToken)
	}
	return token, nil
}

func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}

func isLoopback(host string) bool {
	host = strings.Trim(host, "[]")
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost")
}
