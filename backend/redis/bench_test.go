package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// BenchmarkPlainKeys is a call with one check by INCRBY and EXPIRE beside one by the script, on one server, with others
// under way, and what each costs the server.
func BenchmarkPlainKeys(b *testing.B) {
	server := redistest.Single(b)
	m := openedMixed(b, topology.Config{URL: server.Addr}, nil)
	limits := hourly(b, 1<<40)
	for name, prefix := range map[string]string{"by INCRBY": "\x00bench_", "by the script": "5:bench"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			before := server.CPU(b)
			var client atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				checks := []backend.Check{{Key: fmt.Appendf(nil, "%s%d_", prefix, client.Add(1)), Limits: limits, Hits: 1}}
				out := make([]backend.Decision, 1)
				for p.Next() {
					if err := backend.DecideAll(context.Background(), m, checks, out); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((server.CPU(b)-before).Nanoseconds())/float64(b.N), "redis-ns/op")
		})
	}
}
