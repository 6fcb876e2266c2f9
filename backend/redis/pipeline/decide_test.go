package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// The server never greets, so nobody is answered. The clock is the test's.
func TestCallersLeaveEachInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := goredis.NewClient(&goredis.Options{
			Addr: "silent:1", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(2 * time.Second)
				return nil, errors.New("no greeting")
			},
		})
		p, start := newSums(client, time.Second), time.Now()
		var callers sync.WaitGroup
		for _, caller := range []struct{ has, leaves time.Duration }{
			{5 * time.Millisecond, 3 * time.Millisecond}, {20 * time.Millisecond, 18 * time.Millisecond},
			{200 * time.Millisecond, 180 * time.Millisecond}, {time.Minute, time.Second},
		} {
			callers.Go(func() {
				err := decide(p, caller.has, "key")
				if took := time.Since(start); !errors.Is(err, ErrUnavailable) || took != caller.leaves {
					t.Errorf("a caller with %v got %v after %v; want to leave after %v", caller.has, err, took, caller.leaves)
				}
			})
		}
		callers.Wait()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // until the last dial is over
	})
}

// ample is how long what must be answered has for it: it only ends a test that hangs.
const ample = time.Minute

// fixed is a topology of one client.
type fixed struct{ client *goredis.Client }

func (f fixed) Owner([]byte) (*goredis.Client, error) { return f.client, nil }
func (f fixed) Servers(context.Context) ([]topology.Server, error) {
	return []topology.Server{{Client: f.client}}, nil
}
func (f fixed) Close() error { return nil }

func testClient(t *testing.T, addr string, timeout time.Duration) *goredis.Client {
	t.Helper()
	servers, err := topology.Connect(topology.Config{URL: addr, Timeout: timeout, Log: slog.New(slog.DiscardHandler)}, topology.Rights{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	client, _ := servers.Owner(nil)
	return client
}

// testPipeline is a pipeline of redistest.SumScript.
func testPipeline(t *testing.T, client *goredis.Client, timeout time.Duration) *Pipeline {
	t.Helper()
	p := newSums(client, timeout)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

func newSums(client *goredis.Client, timeout time.Duration) *Pipeline {
	servers := topology.Over(fixed{client}, topology.Config{Timeout: timeout, Log: slog.New(slog.DiscardHandler)})
	codec := ScriptCodec{
		AppendKey: redistest.AppendSumKey, AppendArg: redistest.AppendSumArg, DecodeReply: redistest.DecodeSum,
	}
	return New(servers, codec, NewScript(redistest.SumScript), nil)
}

// decide calls Decide for a hit on each key.
func decide(p *Pipeline, timeout time.Duration, keys ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out := make([]backend.Decision, len(keys))
	if err := p.Decide(ctx, redistest.Hits(keys...), out); err != nil {
		return err
	}
	for i := range out {
		if out[i].Err != nil {
			return out[i].Err
		}
	}
	return nil
}
