package redishistory

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// lookPause is between two looks at the servers. firstPause is after one that failed, and doubles until it is as long.
	lookPause, firstPause = 15 * time.Second, time.Second
	lookTime              = 5 * time.Second
)

// look watches over the servers: whether they can keep a history, and what endangers it.
func (s *Store) look(ctx context.Context) {
	seen := make(map[string]string) // run ids, by server
	trouble, checked, list := "", false, s.ring.names
	for pause := firstPause; ; pause = min(2*pause, lookPause) {
		if !checked {
			err := s.Check(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				checked = true
				s.log.Info("redis can keep the history")
			case err.Error() != trouble:
				trouble = err.Error()
				s.log.Warn("redis cannot keep the history everywhere", "error", err)
			}
		}
		s.lookOnce(ctx, seen)
		list = s.lookAtRing(list)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// lookOnce asks all servers about themselves. What does not answer or must not be asked is left out.
func (s *Store) lookOnce(ctx context.Context, seen map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err := s.servers.Each(ctx, func(name string, do func(...any) (any, error)) error {
		answer, err := do("info")
		if err != nil {
			return err
		}
		content, _ := answer.(string)
		info := parseInfo(content)
		before, known := seen[name]
		seen[name] = info["run_id"]
		if policy := info["maxmemory_policy"]; !known && policy != "noeviction" && policy != "" {
			s.log.Warn("a server of the history may remove keys when its memory is full, and hits with them: "+
				"set maxmemory-policy to noeviction", "server", name, "maxmemory_policy", policy)
		}
		if restarted(info, before, known) {
			_, err = do("bgrewriteaof")
			s.tellStarted(name, err)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("a server of the history does not answer INFO", "error", err)
	}
}

// tellStarted says that a server which has begun was asked to write its append-only file again, or why it was not.
func (s *Store) tellStarted(server string, err error) {
	const began, why = "a Redis of the history was started within the last hour, and a crash may have cut off its append-only file: ",
		", so that its next start loses nothing"
	if err != nil {
		s.log.Warn(began+"it would not write that anew; send it BGREWRITEAOF"+why, "server", server, "error", err)
		return
	}
	s.log.Info(began+"asked it to write that anew"+why, "server", server)
}

// lookAtRing warns if the list of the ring's nodes is not what it was at the last look: what is kept does not move with
// it, and the next start would meet a node that the history does not know, or miss one. It returns the list.
func (s *Store) lookAtRing(before []string) []string {
	now, err := s.servers.NodesNow()
	if err != nil || slices.Equal(now, before) {
		return before
	}
	if slices.Equal(now, s.ring.names) {
		s.log.Info("the ring's list is the one that the history began with again")
	} else {
		s.log.Warn("the ring's list has changed, and the history stays on its nodes: a weir that starts with this list will "+
			"keep no history. Name the history's nodes in REDIS_HISTORY_URL before the next start",
			"history", strings.Join(s.ring.names, ","), "list", strings.Join(now, ","))
	}
	return now
}

// restarted reports whether a server is to write its append-only file again: it has begun since it was last seen, or
// within the hour before it was first seen, and has not done it since.
//
// A crash can tear the file inside a transaction. Redis before the fix of 2026 then cuts off the end and leaves the
// beginning of the transaction open, and the restart after that treats what was written later as a part of it.
func restarted(info map[string]string, before string, known bool) bool {
	if info["aof_enabled"] != "1" || info["aof_last_rewrite_time_sec"] != "-1" || info["aof_rewrite_in_progress"] == "1" {
		return false
	}
	if known {
		return before != info["run_id"]
	}
	uptime, err := strconv.Atoi(info["uptime_in_seconds"])
	return err == nil && uptime < 3600
}

// parseInfo reads what INFO answers.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}
