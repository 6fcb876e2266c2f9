package redis

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// ofPlainStore is the pattern of the keys of plainStore.
var ofPlainStore = fmt.Sprintf("*_%d", plainBegin)

// heldBy is what a server holds for keys of a pattern, and how many of these have no end. Those of the script are
// hashes, and are left out.
func heldBy(t *testing.T, server *redistest.Server, pattern string) (sum int64, immortal int) {
	t.Helper()
	client, ctx := server.Client(), t.Context()
	keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if n, err := client.Get(ctx, keys.Val()).Int64(); err == nil {
			sum += n
			if client.TTL(ctx, keys.Val()).Val() < 0 {
				immortal++
			}
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return sum, immortal
}

// Refunds race counts and each other: what is given back was counted, and nothing below zero stays.
func TestRefundsRace(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := plainStore(t, over(fixed{testClient(t, server.Addr, ample)}, ample))
	for round := range 20 {
		key := fmt.Sprintf("\x00d_round_%d_", round)
		count := redistest.Hit(key)
		count.Hits = 5
		askOne(t, s, count)
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				back := redistest.Hit(key)
				back.Op, back.Hits = backend.Refund, 3
				for range 10 {
					if d := askOne(t, s, back); !d.Allowed {
						t.Errorf("a refund is answered %+v", d)
					}
				}
			})
		}
		running.Wait()
		name := fmt.Sprintf("d_round_%d_%d", round, plainBegin)
		n, err := server.Client().Get(t.Context(), name).Int64()
		if err != nil || n != 0 {
			t.Fatalf("after 5 hits and refunds of 240 the key holds %d (%v); want 0", n, err)
		}
		if ttl := server.Client().TTL(t.Context(), name).Val(); ttl < time.Second || ttl > 360*time.Second {
			t.Errorf("its TTL is %v; want up to its window and the jitter", ttl)
		}
	}
	key := "\x00d_absent_"
	back := redistest.Hit(key)
	back.Op, back.Hits = backend.Refund, 7
	if d := askOne(t, s, back); !d.Allowed || d.Before != 0 || d.Remaining != 1 {
		t.Errorf("a refund where nothing is: %+v", d)
	}
	if _, immortal := heldBy(t, server, ofPlainStore); immortal > 0 {
		t.Errorf("%d keys have no TTL", immortal)
	}
}
