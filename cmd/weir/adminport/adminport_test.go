package adminport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

// serve runs a server until the test ends, and returns its address.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestTokenGoesOnlyToTheAdminPort(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("another port is asked") })
	shown := make(chan string, 1)
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization") + " " + r.URL.RawQuery
		http.Redirect(w, r, "http://"+other, http.StatusFound)
	})
	p := Port{Address: port, Token: "secret", Timeout: time.Hour}
	_, err := p.Ask(t.Context(), http.MethodGet, "/", url.Values{"n": {"1"}, "domain": {""}})
	if err == nil || !strings.Contains(err.Error(), "answers 302") {
		t.Errorf("a port that sends its client elsewhere gives %v; want an error that says so", err)
	}
	if got := <-shown; got != "Bearer secret n=1" {
		t.Errorf("the port is shown %q; want the token, and no empty parameter", got)
	}
}

// The timeout is for each read of a stream, not for the whole stream.
func TestStalledStreamIsAnError(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a part")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, err := Port{Address: port, Timeout: 50 * time.Millisecond}.Stream(t.Context(), "/", nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "nothing came for 50ms") {
		t.Errorf("a stream that stops gives %v; want an error that says for how long nothing came", err)
	}
}

func TestWrongPortIsExplained(t *testing.T) {
	grpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer grpc.Close()
	go func() {
		c, err := grpc.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, "\x00\x00\x00\x04\x00\x00\x00\x00\x00") // the settings that begin HTTP/2
	}()
	for address, want := range map[string]string{
		"127.0.0.1:1":           "connection refused: is weir serving there? name another with --admin",
		grpc.Addr().String():    "no HTTP is spoken there, as at weir's GRPC_PORT (8081): name its DEBUG_PORT (6070)",
		serve(t, http.NotFound): "answers 404: 404 page not found: an admin port is at DEBUG_PORT (6070), not at PORT (8080)",
	} {
		_, err := Port{Address: address, Timeout: time.Hour}.Ask(t.Context(), http.MethodGet, "/api/v1/denials", nil)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("asking another port gives %v, want it to end with %q", err, want)
		}
	}
}

func TestEveryResolvedAddressIsAsked(t *testing.T) {
	resolve := func(_ context.Context, network, host string) (all []netip.Addr, err error) {
		known := map[string]string{"ip4 pods": "10.0.0.9 10.0.0.7", "ip6 pods": "fd00::7", "ip6 six": "fd00::8 fd00::7", "ip4 one": "10.0.0.1",
			"ip4 localhost": "127.0.0.1", "ip6 localhost": "::1", "ip4 loops": "127.0.0.1 127.0.1.1", "ip4 10.1.1.1": "10.1.1.1"}
		for address := range strings.FieldsSeq(known[network+" "+host]) {
			all = append(all, netip.MustParseAddr(address))
		}
		if all == nil {
			err = errors.New("no such host")
		}
		return all, err
	}
	for address, want := range map[string]string{
		"pods:6070": "10.0.0.7:6070 10.0.0.9:6070", "six:6070": "[fd00::7]:6070 [fd00::8]:6070", "one:6070": "one:6070",
		"localhost:6070": "localhost:6070", "loops:6070": "loops:6070", "gone:6070": "gone:6070", "10.1.1.1:1, one:2": "10.1.1.1:1 one:2",
		"nonsense": "nonsense", "": "",
	} {
		var got []string
		for _, p := range (Port{Address: address, Token: "secret", Timeout: time.Hour}).Resolve(t.Context(), resolve) {
			got = append(got, p.Address)
			if p.Token != "secret" {
				t.Errorf("--admin %s: %s is asked without the token", address, p.Address)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("--admin %s asks %q, want %q", address, got, want)
		}
	}
}
