package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	xdsserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/descriptors"
)

const node = "weir-test"

// limited is a domain that allows requests with key k so many times a day.
func limited(domain string, requests uint32) *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: requests}},
	}}
}

// unitless is a domain with a limit that lacks its unit.
func unitless(domain string) *ratelimit.RateLimitConfig {
	c := limited(domain, 1)
	c.Descriptors[0].RateLimit.Unit = ratelimit.RateLimitUnit_UNKNOWN
	return c
}

// misnamed is a domain with a limit whose name splits a header.
func misnamed(domain string) *ratelimit.RateLimitConfig {
	c := limited(domain, 1)
	c.Descriptors[0].RateLimit.Name = "a\r\nb: c"
	return c
}

// control is a configuration server as Envoy Gateway has it: go-control-plane's, with a cache of snapshots. It notes
// what it is asked.
type control struct {
	t       *testing.T
	cache   cache.SnapshotCache
	address string
	stop    func()

	mu       sync.Mutex // protects what follows
	requests []*discovery.DiscoveryRequest
	headers  metadata.MD // of the last stream
}

// socket is the address of a server that is to come again: a port may have gone to somebody else by then.
func socket(t *testing.T) string { return "unix://" + filepath.Join(t.TempDir(), "s") }

// listen starts a server. Without security it is plaintext.
func listen(t *testing.T, address string, secure *tls.Config) *control {
	t.Helper()
	c := &control{t: t, cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	network, path := "tcp", address
	if socket, local := strings.CutPrefix(address, "unix://"); local {
		network, path = "unix", socket
	}
	listener, err := net.Listen(network, path)
	must(t, err)
	if c.address = address; network == "tcp" {
		c.address = listener.Addr().String()
	}
	var options []grpc.ServerOption
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	server := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(server, xdsserver.NewServer(ctx, c.cache, xdsserver.CallbackFuncs{
		StreamOpenFunc:    c.opened,
		StreamRequestFunc: c.asked,
	}))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	c.stop = sync.OnceFunc(func() {
		cancel()
		server.Stop()
		serving.Wait()
	})
	t.Cleanup(c.stop)
	return c
}

func (c *control) opened(ctx context.Context, _ int64, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers, _ = metadata.FromIncomingContext(ctx)
	return nil
}

func (c *control) asked(_ int64, r *discovery.DiscoveryRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, proto.CloneOf(r))
	return nil
}

// set makes these all that the server has, in a version.
func (c *control) set(version string, all ...*ratelimit.RateLimitConfig) {
	c.t.Helper()
	resources := make([]types.Resource, len(all))
	for i, r := range all {
		resources[i] = r
	}
	snapshot, err := cache.NewSnapshot(version, map[string][]types.Resource{typeURL: resources})
	must(c.t, err)
	must(c.t, c.cache.SetSnapshot(c.t.Context(), node, snapshot))
}

// seen returns the requests so far.
func (c *control) seen() []*discovery.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[:len(c.requests):len(c.requests)]
}

// client is a source that runs, and what came of it.
type client struct {
	fixture.Sink
	t *testing.T
}

// follow runs a source on a server until the test ends. What change does to its settings holds before what is usual.
func follow(t *testing.T, address string, change func(*Config)) *client {
	t.Helper()
	c := &client{t: t}
	config := Config{Server: address, Node: node, Log: slog.New(slog.NewTextHandler(c, nil)), OnError: c.OnError,
		Backoff: Backoff{Retry: 100 * time.Millisecond, Initial: 200 * time.Millisecond, Max: time.Second}}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(config).Run(ctx, c.Apply) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v, want the context's error", err)
			}
		case <-time.After(process.Hang):
			t.Error("Run does not end although its context has")
		}
		if t.Failed() {
			_, _, log := c.Got()
			t.Logf("the source's log:\n%s", log)
		}
	})
	return c
}

// limits returns the limits of domains as they are in force: "a=1 b=broken". It is "nothing" before the first configuration.
func (c *client) limits() string {
	applied, _, _ := c.Got()
	if len(applied) == 0 {
		return "nothing"
	}
	var parts []string
	for _, domain := range strings.Split("a b c d", " ") {
		switch m := applied[len(applied)-1].Match(domain, descriptors.Descriptor{{Key: "k", Value: "v"}}); m.Kind {
		case descriptors.RuleMatches:
			parts = append(parts, fmt.Sprintf("%s=%d", domain, m.Rule.Limits[0].Requests))
		case descriptors.BrokenDomain:
			parts = append(parts, domain+"=broken")
		}
	}
	return strings.Join(parts, " ")
}

// expect waits until these limits are in force.
func (c *client) expect(limits, why string) {
	c.t.Helper()
	c.await(why, func() bool { return c.limits() == limits })
}

// await waits until something holds.
func (c *client) await(why string, holds func() bool) {
	c.t.Helper()
	process.Eventually(c.t, why, func() error {
		if !holds() {
			return fmt.Errorf("in force is %s", c.limits())
		}
		return nil
	})
}

// errors returns what OnError was told.
func (c *client) errors() []error {
	_, errs, _ := c.Got()
	return errs
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
