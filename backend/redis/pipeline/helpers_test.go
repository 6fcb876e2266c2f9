package pipeline

import (
	"context"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

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
	client, _ := connected(t, topology.Config{URL: addr, Timeout: timeout, Log: slog.New(slog.DiscardHandler)}).Owner(nil)
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
	return backend.DecideAll(ctx, p, redistest.Hits(keys...), make([]backend.Decision, len(keys)))
}
