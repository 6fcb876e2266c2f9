package e2e_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func TestSIGTERMUnderLoadFailsNoCallOfAClientThatLeavesASecondLater(t *testing.T) {
	t.Parallel()
	const delay, timeout = 3 * time.Second, 5 * time.Second
	const limit = 100_000_000
	w := startWeir(t, fmt.Sprintf(`
- key: plan
  value: large
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: %d }
`, limit), fmt.Sprint("DRAIN_DELAY=", delay), fmt.Sprint("DRAIN_TIMEOUT=", timeout))
	if err := health(w.client(t), grpc_health_v1.HealthCheckResponse_SERVING); err != nil {
		t.Fatalf("before SIGTERM: %v", err)
	}
	running := startLoad(t, w, 4, func(c *client) error {
		_, err := c.hit("large", "ann")
		return err
	})
	time.Sleep(500 * time.Millisecond)

	signalled := time.Now()
	before := running.calls.Load()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("sending SIGTERM: %v", err)
	}
	watcher := w.client(t) // it comes after the signal, and still finds an open door
	eventually(t, time.Second, "/readyz flips at once", func() error { return wantStatus(w.admin+"/readyz", 503) })
	eventually(t, time.Second, "gRPC health flips at once", func() error {
		return health(watcher, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	})
	if err := wantStatus(w.admin+"/livez", 200); err != nil {
		t.Errorf("a weir that drains is alive, and must not be restarted: %v", err)
	}
	time.Sleep(time.Until(signalled.Add(time.Second)))
	running.wantNoFailures(t, "a client that leaves a second after SIGTERM")
	if running.calls.Load() == before {
		t.Errorf("no call was answered after SIGTERM: this test has shown nothing")
	}

	if code := w.exitCode(t, delay+timeout+10*time.Second); code != 0 {
		t.Errorf("weir ended with exit code %d after its drain, want 0", code)
	}
	if took := time.Since(signalled); took < delay {
		t.Errorf("weir ended %v after SIGTERM, before DRAIN_DELAY (%v) was over", took, delay)
	}

	w.start(t)
	status, err := w.client(t).look("large", "ann")
	if err != nil {
		t.Fatalf("asking the restarted weir: %v", err)
	}
	if want := limit - running.calls.Load(); int64(status.LimitRemaining) != want {
		t.Errorf("after a drain and a restart %d hits are left, want %d: a drain saves each hit that was answered, once",
			status.LimitRemaining, want)
	}
}

// health complains unless all names under which weir's health is asked have that status.
func health(c *client, want grpc_health_v1.HealthCheckResponse_ServingStatus) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, service := range []string{"", "ratelimit", rlspb.RateLimitService_ServiceDesc.ServiceName} {
		answer, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			return fmt.Errorf("health of %q: %w", service, err)
		}
		if answer.Status != want {
			return fmt.Errorf("health of %q is %v, want %v", service, answer.Status, want)
		}
	}
	return nil
}
