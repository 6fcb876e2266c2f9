package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirproxy/weir/server/connlimit"
)

// Why requests are refused, as sentences for clients.
const (
	writesNeedToken    = "Admin writes need ADMIN_TOKEN_FILE or a loopback DEBUG_HOST."
	writesNeedLoopback = "Without ADMIN_TOKEN_FILE, admin writes must ask for a loopback address or localhost, not for %q."
	writesNotByPages   = "Without ADMIN_TOKEN_FILE, admin writes are not for web pages: %v."
	wrongToken         = "The token is missing or wrong: send what ADMIN_TOKEN_FILE holds as Authorization: Bearer TOKEN " +
		"(weir --token-file)."
	uncheckedToken = "The token cannot be checked, so this is refused: %v."
	unknownHost    = "This port does not answer to the name %q: ask for a loopback address, localhost or the address that " +
		"weir listens on, or list the name in ADMIN_HOSTS."
	readsNeedToken = "Descriptors' values are shown only to whoever sends the token of ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE " +
		"as Authorization: Bearer TOKEN (weir --token-file)."
	readsNeedLoopback = "Without ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE, descriptors' values are shown only to weir's own host, " +
		"which asks for a loopback address from 127.0.0.1 or ::1."
)

const minToken, maxToken = 16, 4 << 10 // bytes

// Access decides which requests the admin port answers, which may read values, and which may write. The zero value lets
// nobody write, and only this host read values. Any number of goroutines may use it.
type Access struct {
	// TokenFile holds the token for writes, ReadFile a token for reading values, which the first allows too. Without a
	// ReadFile this host reads values without a token. The files are read for every request, so a change needs no
	// restart.
	TokenFile, ReadFile string
	// Host is the port's address. If it is a loopback address and there is no TokenFile, every client may write.
	Host string
	// Hosts are further names and addresses that requests may ask for, besides loopback ones and the port's own; * is any.
	Hosts []string
	Log   *slog.Logger // gets a sample of the requests with a wrong token; may be nil

	refused atomic.Uint64
	logged  connlimit.LogSampler
}

// Refused returns how many requests had a wrong token.
func (a *Access) Refused() uint64 { return a.refused.Load() }

// Check returns an error, which names the variable, if a configured file holds no token.
func (a *Access) Check() error {
	for variable, file := range map[string]string{"ADMIN_TOKEN_FILE": a.TokenFile, "ADMIN_READ_TOKEN_FILE": a.ReadFile} {
		if _, err := readToken(variable, file); err != nil {
			return fmt.Errorf("environment variable %w", err)
		}
	}
	return nil
}

// mayWrite returns a refusal unless a request may write.
func (a *Access) mayWrite(r *http.Request) error {
	if a.TokenFile != "" {
		want, err := readToken("ADMIN_TOKEN_FILE", a.TokenFile)
		if err != nil {
			return refuse(http.StatusForbidden, uncheckedToken, err)
		}
		if !a.hasToken(r, true, want) {
			return refuse(http.StatusForbidden, wrongToken)
		}
		return nil
	}
	if !isLoopback(a.Host) {
		return refuse(http.StatusForbidden, writesNeedToken)
	}
	// A browser on this host reaches the port too, and so does any web page in it: the page's own requests have a
	// foreign Origin, and those by DNS rebinding a foreign Host.
	if !isLoopback(hostOf(r.Host)) {
		return refuse(http.StatusForbidden, writesNeedLoopback, r.Host)
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return refuse(http.StatusForbidden, writesNotByPages, err)
	}
	return nil
}

// mayRead returns a refusal unless a request may read values.
func (a *Access) mayRead(r *http.Request) error {
	// Service meshes forward outside traffic from other loopback addresses, such as Istio's 127.0.0.6.
	from := hostOf(r.RemoteAddr)
	if a.ReadFile == "" && (from == "127.0.0.1" || from == "::1") && isLoopback(hostOf(r.Host)) {
		return nil
	}
	if a.TokenFile == "" && a.ReadFile == "" {
		return refuse(http.StatusForbidden, readsNeedLoopback)
	}
	write, err := readToken("ADMIN_TOKEN_FILE", a.TokenFile)
	read, readErr := readToken("ADMIN_READ_TOKEN_FILE", a.ReadFile)
	err = errors.Join(err, readErr)
	if a.hasToken(r, err == nil, write, read) {
		return nil
	}
	if err != nil {
		return refuse(http.StatusForbidden, uncheckedToken, err)
	}
	return refuse(http.StatusForbidden, readsNeedToken)
}

// allowsHost reports whether the port serves the Host of a request. Requests by DNS rebinding have a foreign one.
func (a *Access) allowsHost(r *http.Request) bool {
	host := strings.Trim(hostOf(r.Host), "[]")
	if isLoopback(host) || slices.ContainsFunc(a.Hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, host) }) {
		return true
	}
	asked, err := netip.ParseAddr(host)
	local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || !known {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && own.Addr().Unmap().WithZone("") == asked.Unmap()
}

// hasToken reports whether a request has one of the non-empty tokens. If allKnown, a wrong token is counted and logged.
func (a *Access) hasToken(r *http.Request, allKnown bool, tokens ...string) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if got == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	for _, want := range tokens {
		// Hashes have equal length, so the time of a comparison reveals nothing about the tokens.
		x, y := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(got))
		if want != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1 {
			return true
		}
	}
	if !allKnown {
		return false
	}
	a.refused.Add(1)
	if a.Log != nil {
		a.logged.Log(a.Log, slog.LevelWarn, "admin token refused",
			"client", r.RemoteAddr, "path", r.URL.Path)
	}
	return false
}

// readToken returns the token in a file, without surrounding space; "" if file is "". Its error names the variable and
// the file.
func readToken(variable, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	token := strings.TrimSpace(string(content))
	if len(token) < minToken || len(content) > maxToken {
		return "", fmt.Errorf("%s: %s must hold a token of %d to %d bytes, such as openssl rand -hex 32 makes", variable, file,
			minToken, maxToken)
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
