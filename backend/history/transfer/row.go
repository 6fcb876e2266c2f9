// Package transfer exports and imports the history of hits. It writes series as CSV or OpenMetrics, reads CSV, and
// counts its rows in a store as late hits, each file once.
package transfer

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/history"
)

// Row is a row of CSV: a bucket of a series.
type Row struct {
	ID    history.ID
	Start int64  // Unix seconds, on a whole minute
	Width int64  // seconds: whole minutes, at most a day
	Sum   uint64 // 1 to history.MaxTotal
	Peak  uint64 // hits of the largest minute; 0 if unknown
}

// maxName bounds the length of a domain, path or value, in bytes. Those of weir serve are far shorter.
const maxName = 16 << 10

// storedPath matches the path of a rule, see descriptors.PathSegment.
var storedPath = regexp.MustCompile(strings.ReplaceAll(strings.ReplaceAll(`^LEVEL(?:/LEVEL)*$`,
	"LEVEL", "TEXT+(?:=TEXT+)?"), "TEXT", "(?:[^/=%]|%25|%2F|%3D)"))

// isControl reports whether r is a control character, which exports escape.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// check returns an error, which names the column and what it allows, if the row cannot be counted now, in a store that
// drops days after a retention; 0: never.
func (r *Row) check(now time.Time, retention time.Duration) error {
	for i, name := range [...]string{r.ID.Domain, r.ID.Path, r.ID.Value} {
		column := [...]string{"domain", "path", "value"}[i]
		if strings.ContainsFunc(name, isControl) {
			return fmt.Errorf("column %s: %.40q holds a control character: leave it out", column, name)
		}
		if !utf8.ValidString(name) || len(name) > maxName || name == "" && column == "domain" {
			return fmt.Errorf("column %s: %.40q is empty, not UTF-8, or has more than %d bytes", column, name, maxName)
		}
	}
	minutes := uint64(max(r.Width, history.Minute) / history.Minute)
	expired := retention > 0 && r.Start-r.Start%history.Day+history.Day+int64(retention/time.Second) <= now.Unix()
	switch {
	case !storedPath.MatchString(r.ID.Path):
		return fmt.Errorf("column path: %q is no path as weir stores it, user/path=%%2Flogin: write / = %% in keys and values as "+
			"%%2F %%3D %%25", r.ID.Path)
	case r.Width < history.Minute || r.Width > history.Day || r.Width%history.Minute != 0:
		return fmt.Errorf("column width: %d is not the width of a bucket: use seconds in whole minutes, 60 to %d", r.Width, history.Day)
	case r.Start < 0 || r.Start%history.Minute != 0 || r.Start > now.Unix() || expired:
		return fmt.Errorf("column start: %d must be the Unix second of a whole minute, not in the future, and not older than "+
			"HISTORY_RETENTION, %v, as it would be lost at once", r.Start, retention)
	case r.Sum > 0 && r.Peak > r.Sum:
		return fmt.Errorf("column peak: %d in a minute is more than the %d hits", r.Peak, r.Sum)
	case r.Sum == 0 || r.Sum > history.MaxTotal || r.Peak > 0 && (r.Sum-1)/r.Peak >= minutes:
		most := uint64(history.MaxTotal)
		if r.Peak > 0 && r.Peak < most/minutes {
			most = r.Peak * minutes
		}
		return fmt.Errorf("column sum: %d hits with at most %d in a minute cannot be in %d minutes: 1 to %d are allowed", r.Sum, r.Peak,
			minutes, most)
	}
	return nil
}

// Increments yields the increments of the row, always the same: one if the row is a bucket of a tier, else those of its
// minutes. If the peak is unknown, all minutes are assumed to be equal.
func (r *Row) Increments() iter.Seq[history.Increment] {
	return func(yield func(history.Increment) bool) {
		for t := range history.Tier(history.Tiers) {
			if t.Width() == r.Width && r.Start%r.Width == 0 {
				minutes := uint64(r.Width / history.Minute)
				yield(history.Increment{ID: r.ID, Minute: r.Start / history.Minute, Hits: r.Sum, Tier: t,
					Peak: cmp.Or(r.Peak, (r.Sum+minutes-1)/minutes)})
				return
			}
		}
		for at, hits := range r.Minutes() {
			if !yield(history.Increment{ID: r.ID, Minute: at, Hits: hits}) {
				return
			}
		}
	}
}

// Minutes yields the minutes, since 1970, in which the row is counted, in their order, with their hits. The row must be
// valid.
//
// If the peak is known, as many minutes as possible have it and one has the rest, so that downsampling the minutes
// restores the row's sum and peak. They are spread evenly over as few hours as possible, from the bucket's first hour
// on, because each hour of minutes is a chunk that the store has to move. If the peak is unknown, all minutes of the
// bucket have the same number of hits, give or take 1. The minutes depend only on the row, so a second run makes the
// same batches.
func (r *Row) Minutes() iter.Seq2[int64, uint64] {
	return func(yield func(minute int64, hits uint64) bool) {
		span := uint64(r.Width / history.Minute) // number of minutes over which the filled ones are spread
		filled := min(span, r.Sum)
		if r.Peak > 0 {
			filled = (r.Sum + r.Peak - 1) / r.Peak
			span = min(span, (filled+59)/60*60)
		}
		remaining := r.Sum
		for i := range filled {
			hits := min(r.Peak, remaining)
			if r.Peak == 0 {
				hits = (remaining + filled - i - 1) / (filled - i)
			}
			remaining -= hits
			if !yield(r.Start/history.Minute+int64(i*span/filled), hits) {
				return
			}
		}
	}
}
