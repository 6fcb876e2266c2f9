package engine

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
)

// exactly is the largest integer below which floats hold all integers.
const exactly = 1 << 53

// remarks are what is to be said beside the answer to a query.
type remarks struct {
	cuts    [history.Tiers]cut
	damaged query.Unreadable
	large   bool      // a count is beyond what a float holds exactly
	spelt   [2]string // what a selector that matches nothing has for a path or value, and how that is stored
	expired uint64    // the most hits of a series that are older than all that is kept, where the query asks about their time
}

// cut is buckets of a tier in which a moment of the query lies.
type cut struct {
	until int64  // where the last of them ends, or is at present, in Unix seconds
	hits  uint64 // the most that one of them holds
}

var widths = [history.Tiers]string{"minute", "5 minutes", "hour", "day"}

// annotations returns the remarks as Prometheus's API gives them.
func (r *remarks) annotations() annotations.Annotations {
	var all annotations.Annotations
	for t, c := range r.cuts {
		if c.until > 0 {
			all.Add(fmt.Errorf("%w: until %s UTC hits are kept by the %s: a moment, or an end of a window, inside such a bucket may be off by up to %d hits a series",
				annotations.PromQLInfo, time.Unix(c.until, 0).UTC().Format("2006-01-02 15:04:05"), widths[t], c.hits))
		}
	}
	if r.expired > 0 {
		all.Add(fmt.Errorf("%w: up to %d hits a series are older than what is kept: they count as if they were older than all that is asked for",
			annotations.PromQLInfo, r.expired))
	}
	if r.spelt[1] != "" {
		all.Add(fmt.Errorf("%w: nothing is called %q: in labels it is spelt %q", annotations.PromQLInfo, r.spelt[0], r.spelt[1]))
	}
	if r.large {
		all.Add(fmt.Errorf("%w: a count is above 2^53, where Prometheus's numbers are no longer exact", annotations.PromQLWarning))
	}
	for _, warning := range r.damaged.Warnings() {
		all.Add(fmt.Errorf("%w: %s", annotations.PromQLWarning, warning))
	}
	return all
}
