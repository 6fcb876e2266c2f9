package redishistory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// settlePause is between two looks at replicas, which say once a second how far they are.
const settlePause = 50 * time.Millisecond

// Settle returns nil once the replicas of all servers have what the servers had when it began to look at them, so that a
// failover forgets nothing of it. A server that has never had a replica has nobody to fail over to. The error names the
// servers whose replicas were not seen to have it before ctx ended.
func (s *Store) Settle(ctx context.Context) error {
	targets := make(map[string]uint64) // the offset that replicas must reach, by server and its history of replication
	var last error                     // why it was not so in the round before
	for {
		err := s.servers.Each(ctx, func(name string, do func(...any) (any, error)) error {
			answer, err := do("info", "replication")
			if err != nil {
				return err
			}
			text, _ := answer.(string)
			return behind(parseInfo(text), name, targets)
		})
		if err == nil || topology.Forbidden(err) {
			return err
		}
		if ctx.Err() == nil || last == nil { // a round that was cut off tells less than the one before
			last = err
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		}
	}
}

// behind returns why it is not known that a server's replicas have what it had when it was first looked at, nil if it is.
// A replica that has gone is known by the backlog that the server keeps for it, for an hour by default.
func behind(info map[string]string, name string, targets map[string]uint64) error {
	now, err := strconv.ParseUint(info["master_repl_offset"], 10, 64)
	if err != nil || info["role"] != "master" {
		return fmt.Errorf("%s is no primary: it is %q", name, info["role"])
	}
	id := name + " " + info["master_replid"]
	if _, known := targets[id]; !known {
		targets[id] = now
	}
	online := 0
	for field, value := range info {
		replica := strings.Split(value, ",") // ip=127.0.0.1,port=6380,state=online,offset=714,lag=0
		if !strings.HasPrefix(field, "slave") || !slices.Contains(replica, "state=online") {
			continue
		}
		online++
		for _, part := range replica {
			text, is := strings.CutPrefix(part, "offset=")
			if at, err := strconv.ParseUint(text, 10, 64); is && (err != nil || at < targets[id]) {
				return fmt.Errorf("%s has a replica at offset %s of %d", name, text, targets[id])
			}
		}
	}
	if online == 0 && info["repl_backlog_active"] == "1" {
		return fmt.Errorf("%s has lost its replicas", name)
	}
	return nil
}
