package faults_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// load asks the replicas at a steady rate, whether they answer or not: a call that waits holds nothing back.
type load struct {
	*scene
	leave   chan struct{}
	running sync.WaitGroup
	sent    atomic.Int64
}

// startLoad begins to ask a scene's replicas.
func startLoad(s *scene) *load {
	l := &load{scene: s, leave: make(chan struct{})}
	draw := rand.New(rand.NewPCG(*seed, 1))
	l.running.Go(func() {
		began := time.Now()
		for n := 0; ; n++ {
			due := began.Add(time.Duration(n) * time.Second / time.Duration(rate()))
			select {
			case <-l.leave:
				return
			case <-time.After(time.Until(due)):
			}
			at, key := l.next(n), anyKey(draw)
			l.sent.Add(1)
			l.running.Go(func() {
				l.record.add(l.ask(at, key))
				l.replicas[at].answered.Add(1)
				l.replicas[at].underWay.Add(-1)
			})
		}
	})
	s.Cleanup(l.stop) // before the connections are closed
	return l
}

// next takes the replicas in turn, those left out that a client of Envoy's kind would leave out. A call is under way to
// the one it returns.
func (l *load) next(n int) int {
	for ; ; n++ {
		at := n % replicas
		l.replicas[at].underWay.Add(1) // before it is asked, so that who takes it out waits for this call
		if !l.replicas[at].out.Load() {
			return at
		}
		l.replicas[at].underWay.Add(-1)
	}
}

// stop ends the load once all calls have ended. It may be called again.
func (l *load) stop() {
	select {
	case <-l.leave:
	default:
		close(l.leave)
	}
	l.running.Wait()
}

// clientTimeout is how long a client waits for an answer, however long weir was given.
const clientTimeout = 10 * time.Second

// earlyDeadline tells weir of an earlier deadline than the one at which the client stops waiting: so it is weir that
// leaves a call unanswered, and the client can tell how late an answer was.
type earlyDeadline struct {
	context.Context
	deadline time.Time
}

// Deadline is what goes over the wire.
func (c earlyDeadline) Deadline() (time.Time, bool) { return c.deadline, true }

// ask sends one call.
func (l *load) ask(at, k int) call {
	ctx, cancel := context.WithTimeout(context.Background(), l.row.budget+clientTimeout)
	defer cancel()
	c := call{key: k, replica: at, begun: l.record.now()}
	answer, err := l.replicas[at].client.ShouldRateLimit(earlyDeadline{ctx, time.Now().Add(l.row.budget)},
		request(allKeys[k].plan, allKeys[k].user))
	c.ended = l.record.now()
	switch code := status.Code(err); {
	case code == codes.DeadlineExceeded || code == codes.Canceled:
		c.verdict = unanswered
		return c
	case err != nil:
		c.verdict, c.failure = failed, err.Error()
		if code == codes.Unavailable && strings.Contains(c.failure, "redis is unavailable") {
			c.policy = "error"
		}
		return c
	case answer.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT:
		c.verdict = over
	}
	if len(answer.Statuses) == 1 {
		c.limit = answer.Statuses[0].GetCurrentLimit().GetRequestsPerUnit()
	}
	c.policy, c.reason = degraded(answer)
	return c
}

// degraded reads from an answer which policy decided in place of a store, and why.
func degraded(answer *rlspb.RateLimitResponse) (policy, reason string) {
	list := answer.GetDynamicMetadata().GetFields()["degraded"].GetListValue().GetValues()
	if len(list) == 0 {
		return "", ""
	}
	fields := list[0].GetStructValue().GetFields()
	return fields["policy"].GetStringValue(), fields["reason"].GetStringValue()
}

// request is what Envoy sends for one descriptor.
func request(plan, user string) *rlspb.RateLimitRequest {
	return &rlspb.RateLimitRequest{Domain: "shop", Descriptors: []*descriptorpb.RateLimitDescriptor{
		weirtest.Describe("plan", plan, "user", user)}}
}
