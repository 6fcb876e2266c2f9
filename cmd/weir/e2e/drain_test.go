package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// largePlan is a rule that nobody reaches the limit of.
const largePlan = `
- key: plan
  value: large
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 100000000 }
`

// The drain's delay is an hour, so that no step of the test can miss it: a second signal ends it.
func TestSIGTERMUnderLoadFailsNoCallOfAClientThatLeavesASecondLater(t *testing.T) {
	t.Parallel()
	w := startWeir(t, largePlan, "DRAIN_DELAY=1h", "DRAIN_TIMEOUT=1h")
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
	w.Terminate(t)
	watcher := w.client(t) // it comes after the signal, and still finds an open door
	took := eventually(t, "/readyz flips at once", func() error { return wantStatus(w.admin+"/readyz", 503) })
	took += eventually(t, "gRPC health flips at once", func() error {
		return health(watcher, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	})
	t.Logf("health flipped %v after SIGTERM", took.Round(time.Millisecond))
	if err := wantStatus(w.admin+"/livez", 200); err != nil {
		t.Errorf("a weir that drains is alive, and must not be restarted: %v", err)
	}
	time.Sleep(time.Until(signalled.Add(time.Second)))
	eventually(t, "calls are answered after SIGTERM", func() error {
		if running.calls.Load() == before {
			return errors.New("none was")
		}
		return nil
	})
	running.wantNoFailures(t, "a client that leaves a second after SIGTERM")
	if err := w.Ended(); err != nil {
		t.Fatalf("before DRAIN_DELAY was over: %v", err)
	}
	w.Terminate(t)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("weir ended with exit code %d when a second signal cut its drain short, want 0", code)
	}

	w.start(t)
	now, err := w.client(t).look("large", "ann")
	if err != nil {
		t.Fatalf("asking the restarted weir: %v", err)
	}
	if want := 100_000_000 - running.calls.Load(); int64(now.LimitRemaining) != want {
		t.Errorf("after a drain and a restart %d hits are left, want %d: a drain saves each hit that was answered, once",
			now.LimitRemaining, want)
	}
}

// callUnderWay starts a call that stays under way, since the Redis behind weir is stopped, and returns where its end
// will be told.
func callUnderWay(t *testing.T, w *weir, server *redistest.Server, proxy *redistest.FaultProxy) <-chan error {
	t.Helper()
	c := w.client(t)
	eventually(t, "Redis counts", func() error {
		_, err := c.hit("large", "ann")
		return err
	})
	counts := func() int { return proxy.Requests("FCALL") + proxy.Requests("EVALSHA") }
	server.Stop()
	before, ended := counts(), make(chan error, 1)
	go func() {
		_, err := c.hit("large", "ann")
		ended <- err
	}()
	eventually(t, "the call has come to Redis", func() error {
		if counts() == before {
			return errors.New("nothing was sent")
		}
		return nil
	})
	return ended
}

// startOnProxy serves a rule on a Redis that is waited for long, behind a proxy that counts what is sent.
func startOnProxy(t *testing.T, settings ...string) (*weir, *redistest.Server, *redistest.FaultProxy) {
	t.Helper()
	server := redistest.Single(t)
	proxy := redistest.Proxy(t, server.Addr)
	return startWeir(t, largePlan, append(settings, "REDIS_URL="+proxy.Addr, "REDIS_TIMEOUT=1h", "HISTORY=false")...), server, proxy
}

func TestACallThatIsUnderWayWhenTheDrainBeginsIsAnswered(t *testing.T) {
	t.Parallel()
	w, server, proxy := startOnProxy(t, "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=1h")
	call := callUnderWay(t, w, server, proxy)
	w.Terminate(t)
	eventually(t, "the door is closed", func() error {
		conn, err := net.Dial("tcp", w.addr())
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("it is open"), conn.Close())
	})
	select {
	case err := <-call:
		t.Fatalf("the call ended with %v while its Redis was stopped", err)
	default:
	}
	if err := w.Ended(); err != nil {
		t.Fatalf("while a call was under way: %v", err)
	}
	server.Cont()
	if err := <-call; err != nil {
		t.Errorf("a call that was under way when the drain began: %v; want its answer", err)
	}
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("weir ended with exit code %d after its drain, want 0", code)
	}
}

func TestACallThatDoesNotEndIsCutOffWhenDRAIN_TIMEOUTIsOver(t *testing.T) {
	t.Parallel()
	const delay, timeout = 500 * time.Millisecond, time.Second
	w, server, proxy := startOnProxy(t, fmt.Sprint("DRAIN_DELAY=", delay), fmt.Sprint("DRAIN_TIMEOUT=", timeout))
	call := callUnderWay(t, w, server, proxy)
	signalled := time.Now()
	w.Terminate(t)
	wantCutOff(t, w, server, call)
	took := time.Since(signalled)
	t.Logf("the call was cut off %v after SIGTERM, with DRAIN_DELAY=%v and DRAIN_TIMEOUT=%v", took.Round(time.Millisecond), delay, timeout)
	if took < delay+timeout {
		t.Errorf("weir cut a call off %v after SIGTERM, before DRAIN_DELAY and DRAIN_TIMEOUT (%v) were over", took, delay+timeout)
	}
}

func TestASecondSignalCutsOffACallThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w, server, proxy := startOnProxy(t, "DRAIN_DELAY=1h", "DRAIN_TIMEOUT=1h")
	call := callUnderWay(t, w, server, proxy)
	w.Terminate(t)
	w.says(t, "draining")
	w.Terminate(t)
	wantCutOff(t, w, server, call)
}

// wantCutOff wants the end of a call whose Redis is stopped, and then, as the store's last batch is waited for until
// Redis answers or REDIS_TIMEOUT is over, an orderly end of weir.
func wantCutOff(t *testing.T, w *weir, server *redistest.Server, call <-chan error) {
	t.Helper()
	if err := <-call; status.Code(err) != codes.Unavailable {
		t.Errorf("the call ended with %v, want UNAVAILABLE, so that Envoy's failure_mode_deny decides", err)
	}
	w.says(t, "cut off")
	server.Cont()
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("weir ended with exit code %d after it had cut off a call, want 0", code)
	}
}

// health complains unless all names under which weir's health is asked have that status.
func health(c *client, want grpc_health_v1.HealthCheckResponse_ServingStatus) error {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
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
