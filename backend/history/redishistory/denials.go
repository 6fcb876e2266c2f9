package redishistory

import (
	"context"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// denialsKey is the sorted set of denials of all processes: texts, with their times in Unix milliseconds as scores.
var denialsKey = denialsKeyOf(0)

func denialsKeyOf(p history.Partition) string { return partitionKey(p) + "denials" }

// The set has at most maxDenials denials, as many as a process has in memory, none older than maxDenialAge.
const maxDenials, maxDenialAge = 8 << 10, 24 * time.Hour

// denialsAtOnce bounds the denials that one command adds or removes.
const denialsAtOnce = 500

// Denial is a denial as its writer describes it.
type Denial struct {
	At   time.Time
	Text string // unique
}

// StoreDenials stores denials, and removes those that are too old or too many. Storing a denial again does not add it
// twice.
func (s *Store) StoreDenials(ctx context.Context, all []Denial, now time.Time) error {
	for len(all) > 0 {
		n := min(len(all), denialsAtOnce)
		command := []any{"zadd", denialsKey}
		for _, d := range all[:n] {
			command = append(command, d.At.UnixMilli(), d.Text)
		}
		if _, err := s.command(ctx, 0, command...); err != nil {
			return err
		}
		all = all[n:]
	}
	for {
		old, err := s.denials(ctx, "-inf", oldestDenial(now), denialsAtOnce)
		if err != nil {
			return err
		}
		if len(old) == 0 {
			count, err := s.command(ctx, 0, "zcard", denialsKey)
			more, _ := count.(int64)
			if err != nil || more <= maxDenials {
				return err
			}
			if old, err = s.denials(ctx, "-inf", "+inf", int(min(more-maxDenials, denialsAtOnce))); err != nil {
				return err
			}
		}
		if len(old) == 0 {
			return nil // others have removed them
		}
		if _, err = s.command(ctx, 0, append([]any{"zrem", denialsKey}, old...)...); err != nil {
			return err
		}
	}
}

// Denials returns the texts of the stored denials of the last day, oldest first.
func (s *Store) Denials(ctx context.Context, now time.Time) ([]any, error) {
	return s.denials(ctx, "("+oldestDenial(now), "+inf", maxDenials)
}

func oldestDenial(now time.Time) string {
	return strconv.FormatInt(now.Add(-maxDenialAge).UnixMilli(), 10)
}

// denials returns the texts of up to n denials between two moments, the oldest first.
func (s *Store) denials(ctx context.Context, from, to string, n int) ([]any, error) {
	answer, err := s.command(ctx, 0, "zrangebyscore", denialsKey, from, to, "limit", 0, n)
	texts, _ := answer.([]any)
	return texts, err
}
