package redishistory

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
)

// hugeKeys fills the partition 0 of a node with so many names and positions of writers, and as many denials as there may be.
func hugeKeys(t *testing.T, node *redistest.Server, n int) (members map[string]int64) {
	t.Helper()
	ctx := t.Context()
	_, err := node.Client().Pipelined(ctx, func(pipe goredis.Pipeliner) error {
		for i := range n {
			pipe.ZAdd(ctx, dueKey(0), goredis.Z{Score: float64(start.Unix()), Member: seriesName(history.ID{Domain: "shop", Path: fmt.Sprint(i)})})
			pipe.HSet(ctx, writersKey(0), fmt.Sprint("writer", i), fmt.Sprint("7 ", start.Unix()))
		}
		for i := range maxDenials {
			pipe.ZAdd(ctx, denialsKey, goredis.Z{Score: float64(start.UnixMilli() + int64(i)), Member: strings.Repeat("x", 400) + fmt.Sprint(i)})
		}
		pipe.Set(ctx, formatKey(0), format, 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]int64{dueKey(0): int64(n), writersKey(0): int64(n), denialsKey: maxDenials}
}

// monitored calls seen with the words of each command that a node runs, those of scripts too, until stop.
func monitored(t *testing.T, node *redistest.Server, seen func(words []string)) (stop func()) {
	t.Helper()
	conn, err := net.Dial("tcp", node.Addr)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	_, _ = conn.Write([]byte("monitor\r\n"))
	if line, err := lines.ReadString('\n'); line != "+OK\r\n" {
		t.Fatalf("MONITOR is answered %q, %v", line, err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for line, err := "", error(nil); err == nil && !strings.Contains(line, "the end"); line, err = lines.ReadString('\n') {
			if _, command, found := strings.Cut(strings.TrimSuffix(line, "\"\r\n"), ` "`); found {
				seen(strings.Split(command, `" "`))
			}
		}
	})
	return func() {
		node.Client().Echo(t.Context(), "the end")
		running.Wait()
		_ = conn.Close()
	}
}

// A key may have as many members as there are series. No command that a move sends works on more than some of them.
func TestHugeKeysMoveInPieces(t *testing.T) {
	nodes := redistest.Ring(t, 2)
	s := opened(t, ringOf(nodes[0]), fixed(start), nil)
	apply(t, s, 1, history.Batch{Writer: "ann", Seq: 1})
	n := 5000
	if !testing.Short() {
		n = 50000
	}
	huge := hugeKeys(t, nodes[0], n)
	var mu sync.Mutex
	most, commands := 0, make(map[string]bool)
	var stops []func()
	for _, node := range nodes {
		stops = append(stops, monitored(t, node, func(words []string) {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, len(words))
			if len(words) > 1 && huge[words[1]] > 0 {
				commands[strings.ToLower(words[0])] = true
			}
		}))
	}
	move(t, s, MoveConfig{To: urlOf(nodes[1])})
	for _, stop := range stops {
		stop()
	}
	delete(commands, "unlink") // whatever it has, it takes no time
	if want := map[string]bool{"zscan": true, "hscan": true, "zadd": true, "hset": true}; !maps.Equal(commands, want) || most > 2*scanCount+8 {
		t.Errorf("a move sends %v for keys of %d members, want those of %v, and up to %d words, want members by the %d", commands, n, want, most, scanCount)
	}
	for key, want := range huge {
		members := nodes[1].Client().ZCard(t.Context(), key).Val() + nodes[1].Client().HLen(t.Context(), key).Val()
		if left := nodes[0].Client().Exists(t.Context(), key).Val(); members != want || left != 0 {
			t.Errorf("of %s there are %d members, want %d, and there where it was still %d keys", key, members, want, left)
		}
	}
}

// Names without a series take long to read, and nothing of them is copied: the locks must not end meanwhile.
func TestReadingRenewsTheLocks(t *testing.T) {
	node := redistest.Ring(t, 1)[0]
	s := opened(t, ringOf(node), fixed(start), nil)
	apply(t, s, 1, history.Batch{Writer: "ann", Seq: 1})
	m := &mover{Store: s, token: "token", lock: "token host", live: s.ring.table.Load().Nodes}
	read := func() error {
		m.renewed = time.Now().Add(-lockTime)
		_, _, err := m.storeAt(m.live[0], format).scanNames(t.Context(), 0, &history.Query{}, math.Inf(1))
		return err
	}
	if err := read(); err == nil || !strings.Contains(err.Error(), "another move") {
		t.Errorf("a mover that lost its locks reads on: %v, want an error, as another mover may be at work", err)
	}
	if err := m.takeLock(t.Context(), m.live[0], ""); err != nil {
		t.Fatal(err)
	}
	node.Client().Expire(t.Context(), moverKey, time.Second)
	if err := read(); err != nil || node.Client().TTL(t.Context(), moverKey).Val() <= time.Second {
		t.Errorf("reading names leaves a lock that ends in %v: %v", node.Client().TTL(t.Context(), moverKey).Val(), err)
	}
}
