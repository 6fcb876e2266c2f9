// Package transfer brings the history of hits from one store to another, or to a file: it writes what is stored as CSV
// or OpenMetrics, reads CSV back, and counts its rows in a store as late hits, each file once.
package transfer

import (
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/history"
)

const (
	minute = 60
	day    = 24 * 60 * minute
)

// Row is the hits of a bucket of a series.
type Row struct {
	ID    history.ID
	Start int64  // Unix seconds, on a whole minute
	Width int64  // seconds: whole minutes, at most a day
	Sum   uint64 // 1 to history.MaxTotal
	Peak  uint64 // the largest minute in it; 0 if it is not known
}

// columnError says what is wrong with one column of a row, and what would be right.
func columnError(column, format string, args ...any) error {
	return fmt.Errorf("column "+column+": "+format, args...)
}

// maxName is how long a domain, a path or a value may be, in bytes: those of weir serve are far shorter.
const maxName = 16 << 10

// storedPath matches the path of a rule, see descriptors.PathSegment.
var storedPath = regexp.MustCompile(strings.ReplaceAll(strings.ReplaceAll(`^LEVEL(?:/LEVEL)*$`,
	"LEVEL", "TEXT+(?:=TEXT+)?"), "TEXT", "(?:[^/=%]|%25|%2F|%3D)"))

// Check returns an error that names the column at fault and what would be right, nil if the row can be counted at a
// moment, in a store that drops days after a retention; 0 does not ask. Nothing may begin after that moment.
func (r *Row) Check(now time.Time, retention time.Duration) error {
	for _, name := range [...]struct{ column, text string }{
		{"domain", r.ID.Domain}, {"path", r.ID.Path}, {"value", r.ID.Value}} {
		switch {
		case !utf8.ValidString(name.text):
			return columnError(name.column, "%q is not UTF-8", name.text)
		case len(name.text) > maxName:
			return columnError(name.column, "it has %d bytes, and %d are allowed", len(name.text), maxName)
		}
	}
	minutes := uint64(max(r.Width, minute) / minute)
	switch {
	case r.ID.Domain == "":
		return columnError("domain", "it is empty; hits of domains that no configuration has are of %s", history.UnknownDomain)
	case r.ID.Path == "":
		return columnError("path", "it is empty; hits that no rule matched are of %s", history.Unmatched)
	case !storedPath.MatchString(r.ID.Path):
		return columnError("path", "%q is no path as weir stores it, user/path=%%2Flogin: write / = %% in keys and values as %%2F %%3D %%25",
			r.ID.Path)
	case r.Width < minute || r.Width > day || r.Width%minute != 0:
		return columnError("width", "%d is not the width of a bucket: use seconds in whole minutes, 60 to %d; weir's own are 60, 300, 3600 and 86400",
			r.Width, day)
	case r.Start < 0 || r.Start%minute != 0:
		return columnError("start", "%d does not begin a minute: use Unix seconds, a multiple of 60 from 0", r.Start)
	case r.Start > now.Unix():
		return columnError("start", "%s is in the future: it is %s", timestamp(r.Start), timestamp(now.Unix()))
	case retention > 0 && r.Start-r.Start%day+day+int64(retention/time.Second) <= now.Unix():
		return columnError("start", "%s is older than HISTORY_RETENTION, %v, and would be lost at once: set that higher here and in "+
			"weir serve, or leave it out", timestamp(r.Start), retention)
	case r.Sum == 0 || r.Sum > history.MaxTotal:
		return columnError("sum", "%d hits: 1 to %d are allowed; leave buckets without hits out", r.Sum, uint64(history.MaxTotal))
	case r.Peak > r.Sum:
		return columnError("peak", "the largest minute, %d, cannot be more than all of them, %d", r.Peak, r.Sum)
	case r.Peak > 0 && (r.Sum-1)/r.Peak >= minutes:
		return columnError("peak", "%d hits do not fit into %d minutes of at most %d", r.Sum, minutes, r.Peak)
	}
	return nil
}

func timestamp(at int64) string {
	if at > history.Always().To {
		return fmt.Sprintf("%d (seconds are meant, not milliseconds)", at)
	}
	return time.Unix(at, 0).UTC().Format(time.RFC3339)
}

// Minutes yields the minutes, since 1970, that the row is counted in, in their order, with their hits. The row must be
// sound.
//
// Where the peak is known, as many minutes as can be have it and one has the rest, so that sum and peak are the row's
// once the minutes are a bucket again. They lie evenly over as many hours as they fill, from the bucket's first on: each
// hour of minutes is a chunk that the store has to move. Where the peak is not known, all minutes of the bucket have the
// same, but for a rest of 1: the least that can be said of it. What a row becomes depends on nothing else: a second run
// makes the same batches.
func (r *Row) Minutes() iter.Seq2[int64, uint64] {
	return func(yield func(minute int64, hits uint64) bool) {
		places := uint64(r.Width / minute)
		used := min(places, r.Sum)
		if r.Peak > 0 {
			used = (r.Sum + r.Peak - 1) / r.Peak
			places = min(places, (used+59)/60*60)
		}
		remaining := r.Sum
		for i := range used {
			hits := min(r.Peak, remaining)
			if r.Peak == 0 {
				hits = (remaining + used - i - 1) / (used - i)
			}
			remaining -= hits
			if !yield(r.Start/minute+int64(i*places/used), hits) {
				return
			}
		}
	}
}
