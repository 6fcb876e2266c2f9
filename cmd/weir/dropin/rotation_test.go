package dropin_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Whatever a rotation changes, it changes while calls come in, each 50 of them over a new connection. Weir wants
// Envoy's certificate, which Envoy Gateway does not make it do: so its authorities are read again on both of its sides.
func TestCertificatesThatRotateUnderLoadFailNoCall(t *testing.T) {
	onNode(t, func(t *testing.T) {
		g := startGateway(t)
		g.startControl(t)
		g.startWeir(t, "GRPC_CLIENT_TLS_CACERT=/certs/ca.crt", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=200ms",
			"XDS_CLIENT_BACKOFF_MAX_INTERVAL=400ms", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=200ms")
		g.healthy(t)
		g.apply(t, allRoute.limit(plenty))
		running := g.envoy.startLoad(t, 4, allRoute.Path)
		first, next := g.authority, newAuthority(t, "Envoy Gateway, the next")
		for _, to := range []struct {
			what    string
			by      *authority
			trusted []*authority
		}{
			{"certificates of the same authority", first, []*authority{first}},
			{"a second authority is trusted", first, []*authority{first, next}},
			{"certificates of the second authority", next, []*authority{first, next}},
			{"the first authority is trusted no longer", next, []*authority{next}},
		} {
			g.rotate(t, to.what, to.by, to.trusted...)
			running.Reach(t, int64(form(200, 500, 500))) // over some new connections, which find the rotation done
		}
		asked := running.wantAllPassed(t, "two authorities and four certificates")
		if got := counted(t, g.redis, allRoute.stem()); got != asked {
			t.Errorf("Redis holds a count of %d, want %d, that of the calls", got, asked)
		}
		stranger := first.issue(t, "envoy").config(t, next)
		stranger.ServerName = weirNames[0]
		conn, err := tls.Dial("tcp", "127.0.0.1:8081", stranger)
		if err == nil { // TLS 1.3 tells a client only now
			_, err = conn.Read(make([]byte, 100))
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "certificate") && !strings.Contains(err.Error(), "unknown") {
			t.Errorf("a client with a certificate of the first authority gets %v, want to be refused", err)
		}
		t.Logf("%d calls through 4 rotations", asked)
	})
}

// rotate gives all three new certificates by one authority and the authorities that they trust, and waits until each of
// them shows and wants these.
func (g *gateway) rotate(t *testing.T, what string, by *authority, trusted ...*authority) {
	t.Helper()
	weir, envoy := by.issue(t, weirNames...), by.issue(t, "envoy")
	g.certs["weir"].write(t, weir.secret(trusted...))
	g.certs["envoy"].write(t, envoy.secret(trusted...))

	weirtest.Eventually(t, what+": Envoy has them", func() error { return g.envoy.shows(envoy.serial(t), trusted) })
	visitor := by.issue(t, "visitor").config(t, trusted...)
	visitor.ServerName = weirNames[0]
	weirtest.Eventually(t, what+": weir shows its own, and takes one of them", func() error {
		conn, err := tls.Dial("tcp", "127.0.0.1:8081", visitor)
		if err != nil {
			return errors.Join(err, g.weir.Ended())
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Text(16); got != weir.serial(t) {
			return fmt.Errorf("it shows the certificate %s, want %s", got, weir.serial(t))
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the server's settings, once it has taken the client's
			return fmt.Errorf("it refuses a client: %w", err)
		}
		return nil
	})
	g.control.renew(g.controlTLS(t, by, trusted...))
	version := g.control.set(t, limits(gatewayDomain, allRoute.limit(plenty)))
	weirtest.Eventually(t, what+": weir comes back to the control plane", func() error {
		g.control.mu.Lock()
		peers := slices.Clone(g.control.peers)
		g.control.mu.Unlock()
		if !slices.Contains(peers, weir.serial(t)) {
			return fmt.Errorf("it was shown the certificates %v, want %s", peers, weir.serial(t))
		}
		return g.control.accepted(version)
	})
}

// shows returns an error unless Envoy shows this certificate, and trusts as many authorities.
func (e *envoy) shows(serial string, trusted []*authority) error {
	text, err := weirtest.Get(e.Admin + "/certs")
	if err != nil {
		return err
	}
	var all struct {
		Certificates []struct {
			Own []struct {
				Serial string `json:"serial_number"`
			} `json:"cert_chain"`
			Trusted []struct {
				Serial string `json:"serial_number"`
			} `json:"ca_cert"`
		}
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return err
	}
	for _, c := range all.Certificates {
		if len(c.Own) != 1 || strings.TrimLeft(c.Own[0].Serial, "0") != serial {
			continue
		}
		for i, a := range trusted {
			if i >= len(c.Trusted) || strings.TrimLeft(c.Trusted[i].Serial, "0") != a.cert.SerialNumber.Text(16) {
				return fmt.Errorf("Envoy does not trust them yet: %s", text)
			}
		}
		return nil
	}
	return fmt.Errorf("Envoy does not show certificate %s: %s", serial, text)
}
