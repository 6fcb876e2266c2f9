package e2e_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// A tool that reflects, and a balancer that watches the health, keep a stream open for as long as they live, on the
// connection on which calls are made.
func TestOpenStreamsBlockNoCalls(t *testing.T) {
	t.Parallel()
	open := 12 * time.Second
	if !testing.Short() {
		open = 2 * time.Minute
	}
	w := weirtest.Serve(t, largePlan)
	c := w.Client(t)
	reflection, err := grpc_reflection_v1.NewServerReflectionClient(c).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		err := reflection.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
		if err == nil {
			_, err = reflection.Recv()
		}
		return err
	}
	watch, err := grpc_health_v1.NewHealthClient(c).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan error, 1)
	go func() {
		_, err := watch.Recv()
		changed <- err
	}()
	if err := list(); err != nil {
		t.Fatal(err)
	}

	running := weirtest.StartLoad(t, 8, func(int) error {
		time.Sleep(time.Millisecond) // others test on this machine
		_, err := c.Hit("large", "ann")
		return err
	})
	time.Sleep(open)
	calls := running.WantNoFailures(t, "a call beside open streams")
	if err := list(); err != nil {
		t.Errorf("after %v an open reflection stream gets %v, want an answer", open, err)
	}
	select {
	case err := <-changed:
		t.Errorf("within %v a health watch ended or changed (%v), and weir is as healthy as before", open, err)
	default:
	}
	t.Logf("%d calls in %v beside a reflection stream and a health watch", calls, open)
}
