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

const (
	// pollInterval is the time between checks of the servers. At the start it is firstPause, and doubles: a server that is
	// away may come back soon.
	pollInterval, firstPause = 15 * time.Second, time.Second
	pollTimeout              = 5 * time.Second
)

// pollServers checks the servers and reads the tables of partitions at intervals, until ctx ends.
func (s *Store) pollServers(ctx context.Context) {
	runIDs := make(map[string]string) // by server
	for pause := firstPause; ; pause = min(2*pause, pollInterval) {
		s.checkServers(ctx, runIDs)
		s.refreshTable(ctx)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// checkServers sends INFO to all servers, logs dangers to the history there, and starts a rewrite of append-only files
// that may be damaged. It skips a server that does not answer or refuses INFO.
func (s *Store) checkServers(ctx context.Context, runIDs map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := s.servers.Each(ctx, func(name string, do func(...any) (any, error)) error {
		answer, err := do("info")
		if err != nil {
			return err
		}
		info := parseInfo(answer)
		before, polled := runIDs[name]
		runIDs[name] = info["run_id"]
		if policy := info["maxmemory_policy"]; !polled && policy != "noeviction" && policy != "" {
			s.log.Warn("history server may evict hits", "server", name, "maxmemory_policy", policy,
				"remedy", "set maxmemory-policy to noeviction")
		}
		if !needsRewrite(info, before, polled) {
			return nil
		}
		if _, err := do("bgrewriteaof"); err != nil {
			s.log.Warn("restarted history server refuses BGREWRITEAOF", "server", name, "error", err,
				"effect", "its append-only file may be damaged",
				"remedy", "send it BGREWRITEAOF, so that its next start loses nothing")
		} else {
			s.log.Info("sent BGREWRITEAOF to a restarted history server", "server", name,
				"reason", "its append-only file may be damaged")
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("a server of the history does not answer INFO", "error", err)
	}
}

// needsRewrite reports whether a server should rewrite its append-only file: it has started since the last poll or, at
// the first poll, within the last hour, and has not rewritten the file since.
//
// A crash can cut the file off inside a transaction. Redis before the fix of 2026 removes the end but leaves the
// beginning of the transaction open, and the next restart takes later writes for a part of it.
func needsRewrite(info map[string]string, before string, polled bool) bool {
	if info["aof_enabled"] != "1" || info["aof_last_rewrite_time_sec"] != "-1" || info["aof_rewrite_in_progress"] == "1" {
		return false
	}
	if polled {
		return before != info["run_id"]
	}
	uptime, err := strconv.Atoi(info["uptime_in_seconds"])
	return err == nil && uptime < 3600
}

// parseInfo parses the reply to INFO.
func parseInfo(answer any) map[string]string {
	text, _ := answer.(string)
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}

// replicaPollInterval is the time between reads of the offsets of replicas, which report them once a second.
const replicaPollInterval = 50 * time.Millisecond

// WaitReplicated implements [history.Store]. It returns nil once the replicas of all servers have reached the offsets
// that the servers had at the first read. It does not wait for a server that has never had a replica, as that cannot
// fail over. The error names the servers whose replicas had not reached the offset when ctx ended.
func (s *Store) WaitReplicated(ctx context.Context) error {
	targets := make(map[string]uint64) // by server and its replication id, the offset that replicas must reach
	var last error                     // the error of the last complete round
	for {
		err := s.servers.Each(ctx, func(name string, do func(...any) (any, error)) error {
			if t := s.ring.table.Load(); t != nil && !slices.Contains(t.Nodes, name) {
				return nil // it has left the ring
			}
			answer, err := do("info", "replication")
			if err != nil {
				return err
			}
			return checkReplicas(parseInfo(answer), name, targets)
		})
		if err == nil || topology.Forbidden(err) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-time.After(replicaPollInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		}
	}
}

// checkReplicas returns nil if a server's replicas have reached the offset that the server had at the first call. A
// server that has lost its replicas has a backlog for them, for an hour by default.
func checkReplicas(info map[string]string, name string, targets map[string]uint64) error {
	now, err := strconv.ParseUint(info["master_repl_offset"], 10, 64)
	if err != nil || info["role"] != "master" {
		return fmt.Errorf("%s is no primary: it is %q", name, info["role"])
	}
	id := name + " " + info["master_replid"]
	if _, ok := targets[id]; !ok {
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
