package pipeline

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// ample is how long what must be answered has for it: it only ends a test that hangs.
const ample = time.Minute

// connected reaches servers until the end of the test.
func connected(t *testing.T, c topology.Config) *topology.Servers {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	s, err := topology.Connect(c, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a pipeline may have closed them
	return s
}

// testPipeline is a pipeline of redistest.SumScript to a server, which the test may close.
func testPipeline(t *testing.T, addr string, timeout time.Duration) *Pipeline {
	t.Helper()
	codec := ScriptCodec{
		AppendKey: redistest.AppendSumKey, AppendArg: redistest.AppendSumArg, DecodeReply: redistest.DecodeSum,
	}
	servers := connected(t, topology.Config{URL: addr, Timeout: timeout})
	p := New(servers, codec, NewScript(redistest.SumScript), nil, nil)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

// decide calls Decide for a hit on each key.
func decide(p *Pipeline, timeout time.Duration, keys ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return decideUntil(ctx, p, keys...)
}

// decideUntil is decide for a caller who leaves when ctx ends.
func decideUntil(ctx context.Context, p *Pipeline, keys ...string) error {
	return backend.DecideAll(ctx, p, redistest.Hits(keys...), make([]backend.Decision, len(keys)))
}
