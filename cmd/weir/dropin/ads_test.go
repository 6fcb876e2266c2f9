package dropin_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cache "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	ads "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	configpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// controlPlane serves limits as Envoy Gateway does: by its library's SnapshotCache, over ADS.
type controlPlane struct {
	node     string // the id that it serves
	cache    cache.SnapshotCache
	versions int // snapshots so far

	mu       sync.Mutex // protects requests
	requests []string   // the versions that were accepted, or why one was refused
}

// startControlPlane serves a node at an address, in plaintext if there is no config.
func startControlPlane(t *testing.T, addr, node string, config *tls.Config) *controlPlane {
	t.Helper()
	c := &controlPlane{node: node, cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	server := grpc.NewServer(grpc.Creds(transport))
	callbacks := ads.CallbackFuncs{StreamRequestFunc: c.asked}
	discoverypb.RegisterAggregatedDiscoveryServiceServer(server, ads.NewServer(t.Context(), c.cache, callbacks))
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return c
}

func (c *controlPlane) asked(_ int64, r *discoverypb.DiscoveryRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, cmp.Or(r.GetErrorDetail().GetMessage(), r.VersionInfo))
	return nil
}

// set makes these configurations all that there are, and returns the version of the snapshot.
func (c *controlPlane) set(t *testing.T, configs ...*configpb.RateLimitConfig) string {
	t.Helper()
	resources := make([]types.Resource, len(configs))
	for i, config := range configs {
		resources[i] = config
	}
	c.versions++
	version := fmt.Sprint(c.versions)
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err == nil {
		err = c.cache.SetSnapshot(context.Background(), c.node, snapshot)
	}
	if err != nil {
		t.Fatalf("setting a snapshot: %v", err)
	}
	return version
}

// accepted returns an error unless a version was accepted.
func (c *controlPlane) accepted(version string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.requests, version) {
		return fmt.Errorf("version %s was not accepted; asked: %q", version, c.requests)
	}
	return nil
}
