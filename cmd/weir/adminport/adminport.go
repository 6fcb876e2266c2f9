// Package adminport sends requests to the admin port of a running weir.
package adminport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirproxy/weir/descriptors/regular"
)

const maxAnswer = 256 << 20 // bytes: a history of 250,000 points takes some 15 MB

// Port has the flags of commands that use an admin port. A command sets the kong variables ${timeout} and ${admin}, a part
// of the help of --admin. Empty parameters of a query are not sent.
type Port struct {
	Address string        `name:"admin" placeholder:"HOST:PORT" help:"Weir's admin port; ${admin}127.0.0.1:6070, or what DEBUG_HOST and DEBUG_PORT say."`
	Token   Token         `name:"token-file" env:"ADMIN_TOKEN_FILE,ADMIN_READ_TOKEN_FILE" placeholder:"FILE" help:"File that holds the token of ADMIN_TOKEN_FILE or, to read values alone, of ADMIN_READ_TOKEN_FILE."`
	Timeout time.Duration `default:"${timeout}" help:"How long to wait for the answer."` // above 0
}

// Token is a bearer token of the admin port. The flag's value is the name of the file that contains it.
type Token string

// UnmarshalText reads the token from a file; "" names no file.
func (t *Token) UnmarshalText(file []byte) error {
	if len(file) == 0 {
		return nil
	}
	content, err := regular.ReadFile(string(file))
	*t = Token(strings.TrimSpace(string(content)))
	return err
}

// Resolve returns a Port for each weir of a fleet: --admin may be a list, and each of its names, such as that of a
// headless Service, may resolve to several addresses. It uses the IPv4 addresses of a name or, without one, the IPv6
// addresses, because a pod may have one of each. resolve is [net.Resolver.LookupNetIP].
func (p Port) Resolve(ctx context.Context, resolve func(_ context.Context, network, host string) ([]netip.Addr, error)) (ports []Port) {
	ctx, cancel := context.WithTimeout(ctx, max(p.Timeout, 0))
	defer cancel()
	for address := range strings.SplitSeq(p.Address, ",") {
		p.Address = strings.TrimSpace(address)
		host, port, _ := net.SplitHostPort(p.Address)
		found, _ := resolve(ctx, "ip4", host)
		if len(found) == 0 {
			found, _ = resolve(ctx, "ip6", host)
		}
		if len(found) < 2 || found[0].IsLoopback() { // a name that is not found stays, so that the request to it reports the error
			ports = append(ports, p)
			continue
		}
		slices.SortFunc(found, netip.Addr.Compare)
		for _, ip := range found {
			p.Address = net.JoinHostPort(ip.Unmap().String(), port)
			ports = append(ports, p)
		}
	}
	return ports
}

// Ask sends a request and returns the body of its answer. An answer other than 200 is an error. Errors name --admin,
// --timeout or the address, and quote weir's reason.
func (p Port) Ask(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	response, err := p.open(ctx, method, path, query)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errors.New("it is longer than 256 MiB")
	}
	if err != nil {
		err = p.incompleteError(err)
	}
	return body, err
}

// Stream is Ask for a long answer: it copies the body to out, and returns the trailer. The timeout is not for the whole
// answer, but for each read.
func (p Port) Stream(ctx context.Context, path string, query url.Values, out io.Writer) (trailer http.Header, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(p.Timeout, func() { cancel(fmt.Errorf("nothing came for %v", p.Timeout)) })
	defer timeout.Stop()
	response, err := p.open(ctx, http.MethodGet, path, query)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	part := make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(part)
		timeout.Stop() // out may be slow
		if _, failed := out.Write(part[:n]); failed != nil {
			return nil, failed
		}
		timeout.Reset(p.Timeout)
		if err == io.EOF {
			return response.Trailer, nil
		}
		if err != nil {
			return nil, p.incompleteError(cmp.Or(context.Cause(ctx), err))
		}
	}
}

func (p Port) incompleteError(err error) error {
	return fmt.Errorf("reading the answer of %s, which is incomplete: %w", p.Address, err)
}

// client uses no proxy and follows no redirect, because only the admin port may get the token.
var client = http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// open sends a request and returns the response with an open body. A status other than 200 is an error.
func (p Port) open(ctx context.Context, method, path string, query url.Values) (*http.Response, error) {
	if _, port, err := net.SplitHostPort(p.Address); err != nil || port == "" {
		return nil, fmt.Errorf("--admin %q is not HOST:PORT", p.Address)
	}
	if p.Timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v must be above 0", p.Timeout)
	}
	maps.DeleteFunc(query, func(name string, _ []string) bool { return query.Get(name) == "" })
	target := url.URL{Scheme: "http", Host: p.Address, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	if p.Token != "" {
		request.Header.Set("Authorization", "Bearer "+string(p.Token))
	}
	response, err := client.Do(request)
	if err != nil {
		err = cmp.Or(context.Cause(ctx), errors.Unwrap(err)) // without the URL, which is long
		if strings.Contains(err.Error(), "malformed HTTP response") {
			err = errors.New("no HTTP is spoken there, as at weir's GRPC_PORT (8081): name its DEBUG_PORT (6070)")
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("%w: is weir serving there? name another with --admin", err)
		}
		return nil, fmt.Errorf("asking weir's admin port at %s: %w", p.Address, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		text := strings.TrimSpace(string(body))
		if text == "404 page not found" { // net/http's text, not weir's
			text += ": an admin port is at DEBUG_PORT (6070), not at PORT (8080)"
		}
		return nil, fmt.Errorf("%s answers %d: %s", p.Address, response.StatusCode, text)
	}
	return response, nil
}
