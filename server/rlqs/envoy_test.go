package rlqs

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// weir is a service with a gRPC server on connections in memory.
type weir struct {
	*Service
	recorder *hits.Recorder
	server   *grpc.Server
	line     *bufconn.Listener
	stop     context.CancelFunc
}

// memoryExchange is an Exchange in memory.
type memoryExchange struct {
	mu       sync.Mutex
	messages map[string]map[string]string
}

func (s *memoryExchange) Exchange(_ context.Context, key, name, says string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messages[key] == nil {
		s.messages[key] = make(map[string]string)
	}
	delete(s.messages[key], name)
	others := maps.Clone(s.messages[key])
	if says != "" {
		s.messages[key][name] = says
	}
	return others, nil
}

// start runs a service with rules and a store, as one of a number of replicas. Its bounds are small.
func start(t *testing.T, store backend.Counter, rules string, replicas int, exchange Exchange) *weir {
	t.Helper()
	w := &weir{recorder: hits.New(0), server: grpc.NewServer(), line: bufconn.Listen(1 << 20)}
	l := limit.New(store, limit.Options{Algorithm: descriptors.SlidingWindow}, w.recorder)
	l.Apply(fixture.Config(t, rules))
	w.Service = New(l, Options{TTL: 15 * time.Second, MaxStreams: 8, MaxBuckets: 40, MaxStreamBuckets: 30,
		Replicas: func() int { return replicas }, Exchange: exchange, Log: slog.New(slog.DiscardHandler)})
	w.Register(w.server)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = func() {
		w.server.Stop()
		stop()
	}
	go w.server.Serve(w.line)
	go w.Run(ctx)
	t.Cleanup(w.stop)
	return w
}

// counted returns the recorded hits by outcome.
func (w *weir) counted() (all [history.Outcomes]uint64) {
	w.recorder.Drain(time.Now(), func(id history.ID, n uint64) { all[id.Outcome] += n })
	return all
}

// connect opens a stream.
func (w *weir) connect(t *testing.T) quota.RateLimitQuotaService_StreamRateLimitQuotasClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.line.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		conn.Close()
	})
	stream, err := quota.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// usage returns a message with a report of one bucket.
func usage(domain string, bucket map[string]string, allowed, denied uint64) *quota.RateLimitQuotaUsageReports {
	return &quota.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*quota.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId: &quota.BucketId{Bucket: bucket}, TimeElapsed: durationpb.New(0), NumRequestsAllowed: allowed, NumRequestsDenied: denied}}}
}

// envoy limits one bucket as Envoy 1.40 does: see reference/envoy-api.md, 2.2 and 2.6.
type envoy struct {
	bucket map[string]string
	rate   int // requests in 50 ms

	mu              sync.Mutex
	stream          quota.RateLimitQuotaService_StreamRateLimitQuotasClient
	known           bool // Envoy has the bucket
	strategy        *envoytype.RateLimitStrategy
	until           time.Time
	tokens          float64
	filled          time.Time
	allowed, denied uint64 // since the last report
	passed          []time.Time
	passes, denials uint64
}

// run sends requests and reports until the context ends.
func (e *envoy) run(ctx context.Context) {
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ctx.Err() == nil; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			e.mu.Lock()
			for range e.rate {
				e.request(time.Now())
				if !e.known {
					e.known = true
					e.report()
				}
			}
			if n%100 == 0 && e.known {
				e.report()
			}
			e.mu.Unlock()
		}
	}()
}

// listen handles the messages of a stream until it ends.
func (e *envoy) listen(stream quota.RateLimitQuotaService_StreamRateLimitQuotasClient) {
	e.mu.Lock()
	e.stream = stream
	e.mu.Unlock()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			e.mu.Lock()
			for _, a := range m.BucketAction {
				e.act(a)
			}
			e.mu.Unlock()
		}
	}()
}

func (e *envoy) report() {
	if e.stream != nil && e.stream.Send(usage("shop", e.bucket, e.allowed, e.denied)) == nil {
		e.allowed, e.denied = 0, 0
	}
}

// act applies an action as Envoy does: an equal token bucket keeps its tokens.
func (e *envoy) act(a *quota.RateLimitQuotaResponse_BucketAction) {
	if a.GetAbandonAction() != nil {
		e.known, e.strategy = false, nil
		return
	}
	given := a.GetQuotaAssignmentAction()
	e.until = time.Now().Add(time.Duration(given.AssignmentTimeToLive.Seconds) * time.Second)
	was, now := e.strategy.GetTokenBucket(), given.RateLimitStrategy.GetTokenBucket()
	if was != nil && now != nil {
		if was.MaxTokens == now.MaxTokens && was.TokensPerFill.Value == now.TokensPerFill.Value {
			return
		}
		e.tokens *= float64(now.MaxTokens) / float64(was.MaxTokens)
	} else if now != nil {
		e.tokens, e.filled = float64(now.MaxTokens), time.Now()
	}
	e.strategy = given.RateLimitStrategy
}

func (e *envoy) request(now time.Time) {
	allow := true
	switch b := e.strategy.GetTokenBucket(); {
	case e.strategy != nil && !now.Before(e.until):
		allow = false // expired_assignment_behavior
	case b != nil:
		rate := float64(b.TokensPerFill.Value) / float64(b.FillInterval.Seconds)
		e.tokens = min(float64(b.MaxTokens), e.tokens+rate*now.Sub(e.filled).Seconds())
		e.filled = now
		if allow = e.tokens >= 1; allow {
			e.tokens--
		}
	case e.strategy.GetBlanketRule() == envoytype.RateLimitStrategy_DENY_ALL:
		allow = e.strategy == nil
	}
	if !allow {
		e.denied, e.denials = e.denied+1, e.denials+1
		return
	}
	e.allowed, e.passes, e.passed = e.allowed+1, e.passes+1, append(e.passed, now)
}

// takePassed returns how many requests passed since its last call.
func (e *envoy) takePassed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.passed)
	e.passed = nil
	return n
}

// inBubble runs a test in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
