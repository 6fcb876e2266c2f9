package xds

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// scripted is a stream on the clock of a synctest bubble, with a server that answers a refusal at once with what it
// has, as a cache of snapshots does.
type scripted struct {
	grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

	ctx       context.Context
	began     time.Time
	now       atomic.Pointer[discovery.DiscoveryResponse]
	responses chan *discovery.DiscoveryResponse

	mu sync.Mutex
	received
}

// received is what the server was sent.
type received struct {
	refusals []time.Duration             // when they came
	refused  *discovery.DiscoveryRequest // the last of them
	accepted []string                    // versions
}

func (s *scripted) got() received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

func (s *scripted) Send(r *discovery.DiscoveryRequest) error {
	if s.note(r) {
		s.responses <- s.now.Load()
	}
	return nil
}

func (s *scripted) note(r *discovery.DiscoveryRequest) (refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetErrorDetail() == nil {
		s.accepted = append(s.accepted, r.GetVersionInfo())
		return false
	}
	s.refusals, s.refused = append(s.refusals, time.Since(s.began)), r
	return true
}

func (s *scripted) Recv() (*discovery.DiscoveryResponse, error) {
	select {
	case r := <-s.responses:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// set makes these all that the server has, and sends them.
func (s *scripted) set(t *testing.T, version string, all ...proto.Message) {
	response := &discovery.DiscoveryResponse{VersionInfo: version, TypeUrl: typeURL, Resources: pack(t, all...)}
	s.now.Store(response)
	s.responses <- response
	synctest.Wait()
}

// onStream follows a scripted stream while test runs.
func onStream(t *testing.T, test func(t *testing.T, s *scripted, c *client)) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{t: t}
		source := New(Config{Server: "s:1", Node: node, Log: slog.New(slog.NewTextHandler(c, nil)), OnError: c.OnError})
		ctx, cancel := context.WithCancel(t.Context())
		s := &scripted{ctx: ctx, began: time.Now(), responses: make(chan *discovery.DiscoveryResponse, 2)}
		ended := make(chan error, 1)
		go func() {
			_, err := source.handleStream(ctx, s, c.Apply)
			ended <- err
		}()
		synctest.Wait()
		test(t, s, c)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the stream ended with %v, want the context's error", err)
		}
	})
}

func TestRefusedVersionIsRequestedEachSecond(t *testing.T) {
	onStream(t, func(t *testing.T, s *scripted, c *client) {
		s.set(t, "1", limited("a", 1))
		s.set(t, "2", unitless("a"), limited("b", 1), misnamed("c"))
		time.Sleep(4500 * time.Millisecond)
		synctest.Wait()
		want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
		if !slices.Equal(s.got().refusals, want) {
			t.Errorf("refusals were sent after %v, want %v: a server that answers at once must not be kept busy, and must be told",
				s.got().refusals, want)
		}
		message := s.got().refused.GetErrorDetail().GetMessage()
		if !strings.Contains(message, "resource a: domain a, k: unit is missing") || s.got().refused.GetVersionInfo() != "1" ||
			!strings.Contains(message, `resource c: domain c, k: name is "a\r\nb: c"`) {
			t.Errorf("the server is told %v, want both faults, and version 1, the last that was accepted", s.got().refused)
		}
		if got := c.limits(); got != "a=1 b=1 c=broken" || c.Logged("keep their last valid version: a;") != 1 || c.Logged("unit is missing") != 2 {
			t.Errorf("in force is %s, and the fault is logged %d times; want a=1, as a keeps its last valid version, b=1 and c=broken, and "+
				"twice (as a problem, and as the first of all)", got, c.Logged("unit is missing"))
		}
		if got := c.errors(); len(got) != 1 || !strings.Contains(got[0].Error(), "2 errors, the first: resource a: ") {
			t.Errorf("OnError was told %v, want once: 2 errors", got)
		}
		s.set(t, "3", limited("a", 3))
		time.Sleep(2 * readInterval)
		synctest.Wait()
		if got := c.limits(); got != "a=3" || !slices.Equal(s.got().accepted, []string{"", "1", "3"}) {
			t.Errorf("in force is %s, and accepted were %q; want a=3, and the versions 1 and 3", got, s.got().accepted)
		}
	})
}

func TestSilentServerIsWaitedFor(t *testing.T) {
	onStream(t, func(t *testing.T, s *scripted, c *client) {
		time.Sleep(maxSilence - 1)
		synctest.Wait()
		if got := c.Logged("level="); got != 0 {
			t.Errorf("%d lines in the log of a server that has just been asked", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := c.Logged("configuration server is silent"); got != 1 || len(s.got().accepted) != 1 {
			t.Errorf("an hour of silence is told %d times, and asked into %d times; want once what could be the reason", got, len(s.got().accepted))
		}
		s.set(t, "1", limited("a", 1))
		if got := c.limits(); got != "a=1" {
			t.Errorf("in force is %s, want the first version", got)
		}
	})
}
