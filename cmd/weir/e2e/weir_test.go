package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// weir is a running weir serve with a configuration of one file.
type weir struct {
	*process.Process
	config   string // its --config folder
	data     string // its DATA_DIR
	grpcPort int
	http     string // URL of its HTTP port
	admin    string // URL of its admin port
	env      []string
}

// startWeir serves the rules, which are those of domain shop, and waits until it is ready. Settings are NAME=value.
func startWeir(t testing.TB, rules string, settings ...string) *weir {
	t.Helper()
	process.Weir(t) // so that go test sees what its result hangs on
	w := &weir{config: t.TempDir(), data: t.TempDir(), grpcPort: process.Port(t)}
	port, debugPort := process.Port(t), process.Port(t)
	w.http = fmt.Sprintf("http://127.0.0.1:%d", port)
	w.admin = fmt.Sprintf("http://127.0.0.1:%d", debugPort)
	w.env = append([]string{
		"GRPC_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", w.grpcPort),
		"HOST=127.0.0.1", fmt.Sprint("PORT=", port),
		"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", debugPort),
		"DATA_DIR=" + w.data,
	}, settings...)
	w.configure(t, rules)
	w.start(t)
	return w
}

// start runs weir serve, again after a kill.
func (w *weir) start(t testing.TB) {
	t.Helper()
	w.Process = process.Start(t, "weir", w.env, weirBinary, "serve", "--config", w.config)
	w.AwaitReady(t, func() error { return wantStatus(w.admin+"/readyz", 200) })
}

// configure replaces the configuration in one step, so that weir never sees half a file.
func (w *weir) configure(t testing.TB, rules string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(next, []byte("domain: shop\ndescriptors:\n"+rules), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(w.config, "shop.yaml")); err != nil {
		t.Fatal(err)
	}
}

func (w *weir) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(w.grpcPort)) }

// client asks weir as Envoy does, without Envoy's care: it watches no health and repeats nothing.
type client struct {
	conn *grpc.ClientConn
	rls  rlspb.RateLimitServiceClient
}

func (w *weir) client(t testing.TB) *client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+w.addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableHealthCheck(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
	if err != nil {
		t.Fatalf("making a client of %s: %v", w.addr(), err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{conn: conn, rls: rlspb.NewRateLimitServiceClient(conn)}
}

// hit asks for one hit of a user under a plan.
func (c *client) hit(plan, user string) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	return c.ask(describe(plan, user))
}

// look asks without counting.
func (c *client) look(plan, user string) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	d := describe(plan, user)
	d.HitsAddend = wrapperspb.UInt64(0)
	return c.ask(d)
}

// refund gives hits back.
func (c *client) refund(hits uint64, plan, user string) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	d := describe(plan, user)
	d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(hits), true
	return c.ask(d)
}

// ask sends one descriptor.
func (c *client) ask(d *descriptorpb.RateLimitDescriptor) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	answer, err := c.rls.ShouldRateLimit(ctx, &rlspb.RateLimitRequest{
		Domain: "shop", Descriptors: []*descriptorpb.RateLimitDescriptor{d},
	})
	if err != nil {
		return nil, err
	}
	if n := len(answer.Statuses); n != 1 {
		return nil, fmt.Errorf("one descriptor was answered with %d statuses", n)
	}
	return answer.Statuses[0], nil
}

// describe returns the descriptor that the tests' Envoy makes of a plan and a user.
func describe(plan, user string) *descriptorpb.RateLimitDescriptor {
	return &descriptorpb.RateLimitDescriptor{Entries: []*descriptorpb.RateLimitDescriptor_Entry{
		{Key: "plan", Value: plan}, {Key: "user", Value: user},
	}}
}
