package e2e_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// largePlan is a rule that nobody reaches the limit of.
var largePlan = weirtest.Rule("large", "unit: hour, requests_per_unit: 100000000")

// The drain's delay is an hour, so that no step of the test can miss it: a second signal ends it. SIGHUP does not.
func TestTerminationUnderLoadFailsNoCall(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, largePlan, "DRAIN_DELAY=1h", "DRAIN_TIMEOUT=1h")
	if err := health(w.Client(t), grpc_health_v1.HealthCheckResponse_SERVING); err != nil {
		t.Fatalf("before SIGTERM: %v", err)
	}
	clients := []*weirtest.Client{w.Client(t), w.Client(t), w.Client(t), w.Client(t)}
	running := weirtest.StartLoad(t, len(clients), func(worker int) error {
		_, err := clients[worker].Hit("large", "ann")
		return err
	})
	running.Reach(t, 100)
	w.Terminate(t)
	watcher := w.Client(t) // it comes after the signal, and still finds an open door
	w.Eventually(t, "/readyz flips", func() error { return weirtest.WantStatus(w.Admin+"/readyz", 503) })
	w.Eventually(t, "gRPC health flips", func() error {
		return health(watcher, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	})
	if err := weirtest.WantStatus(w.Admin+"/livez", 200); err != nil {
		t.Errorf("a weir that drains is alive, and must not be restarted: %v", err)
	}
	w.Signal(t, syscall.SIGHUP)
	running.Reach(t, 500)
	asked := running.WantNoFailures(t, "a client that leaves long after SIGTERM")
	if err := w.Ended(); err != nil {
		t.Fatalf("before DRAIN_DELAY was over: %v", err)
	}
	w.Drain(t)

	w.Restart(t)
	now, err := w.Client(t).Look("large", "ann")
	if want := 100_000_000 - asked; err != nil || int(now.LimitRemaining) != want {
		t.Errorf("after a drain and a restart: %v (%v), want %d left: a drain saves each hit that was answered, once", now, err, want)
	}
}

// health complains unless all names under which weir's health is asked have that status.
func health(c *weirtest.Client, want grpc_health_v1.HealthCheckResponse_ServingStatus) error {
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang)
	defer cancel()
	for _, service := range []string{"", "ratelimit", rlspb.RateLimitService_ServiceDesc.ServiceName} {
		answer, err := grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || answer.Status != want {
			return fmt.Errorf("health of %q is %v (%w), want %v", service, answer, err, want)
		}
	}
	return nil
}

// awaitCounts waits until the store behind a client answers.
func awaitCounts(t *testing.T, c *weirtest.Client, plan string) {
	t.Helper()
	weirtest.Eventually(t, "the store counts", func() error {
		_, err := c.Look(plan, "ann")
		return err
	})
}

// One client takes all connections that it may have, and more: probes and other clients must not notice.
func TestExhaustedConnectionsBlockNeitherHealthNorDrain(t *testing.T) {
	t.Parallel()
	const most = 16
	w := weirtest.Serve(t, largePlan, fmt.Sprint("GRPC_MAX_CONNECTIONS_PER_CLIENT=", most), "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=1s")
	good := w.Client(t)
	hits(t, good, 1, "large", "ann")
	hostile := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 3 * most {
		conn, err := hostile.Dial("tcp", w.GRPC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		// Settings, and HEADERS of a call that has no message yet: POST, http, /, an authority and the type of its content. A
		// connection that is refused takes none.
		_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
			"\x00\x00\x19\x01\x04\x00\x00\x00\x01\x83\x86\x84\x01\x01x\x0f\x10\x10application/grpc"))
	}
	weirtest.Eventually(t, "an operator sees that connections are refused", func() error {
		metrics, err := w.Scrape()
		open := metrics[`weir_connections{port="grpc"}`]
		refused := metrics[`weir_connections_refused_total{port="grpc",reason="max_connections_per_client"}`]
		if err == nil && (open != most+1 || refused != 2*most) {
			err = fmt.Errorf("/metrics has %v connections and %v refused; want %d and %d", open, refused, most+1, 2*most)
		}
		return err
	})
	for range most / 2 {
		if err := health(w.Client(t), grpc_health_v1.HealthCheckResponse_SERVING); err != nil {
			t.Errorf("a probe of gRPC health on a connection of its own got %v", err)
		}
		hits(t, good, 1, "large", "ann")
	}
	for _, url := range []string{w.HTTP + "/healthcheck", w.Admin + "/readyz"} {
		if err := weirtest.WantStatus(url, 200); err != nil {
			t.Error(err)
		}
	}
	w.Says(t, fmt.Sprint("max_connections_per_client=", most))
	w.Drain(t)
}

// hits sends hits that are answered, whatever the verdict.
func hits(t *testing.T, c *weirtest.Client, n int, plan, user string) {
	t.Helper()
	for range n {
		if _, err := c.Hit(plan, user); err != nil {
			t.Fatalf("asking weir: %v", err)
		}
	}
}
