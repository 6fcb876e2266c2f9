package redishistory

import (
	"context"
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
	trouble, checked := "", false
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
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// lookOnce asks all servers about themselves. What does not answer or must not be asked is left out.
func (s *Store) lookOnce(ctx context.Context, seen map[string]string) {
	const began, why = "a Redis of the history was started within the last hour, and a crash may have cut off its " +
		"append-only file: ", ", so that its next start loses nothing"
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
		if !restarted(info, before, known) {
			return nil
		}
		if _, err := do("bgrewriteaof"); err != nil {
			s.log.Warn(began+"it would not write that anew; send it BGREWRITEAOF"+why, "server", name, "error", err)
		} else {
			s.log.Info(began+"asked it to write that anew"+why, "server", name)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("a server of the history does not answer INFO", "error", err)
	}
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
