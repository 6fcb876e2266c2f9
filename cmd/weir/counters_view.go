package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

const (
	// maxBucketRows is how many buckets of a level are shown: the newest.
	maxBucketRows = 60
	// barWidth is the length of a level's longest bar, in columns.
	barWidth = 30
	// instant is the width of what a sliding log lists.
	instant = "1µs"
)

// countersView shows counters to people:
//
//	shop user=ann   rule user
//
//	10/minute   7 of 10, 3 remaining, resets in 29s
//	  1s    12:00:12  3  ███████
//	        12:00:33  4  ██████████
//	  1m    2026-11-21 12:00  7  ██████████
//
// A sliding log lists the instants of its hits, a token bucket nothing.
type countersView struct {
	answer admin.CountersAnswer
	done   string // a sentence to begin with; then the buckets, which were not asked for, are left out
	zone   *time.Location
	paint  terminal.Paint
}

// String returns the view, over several lines.
func (v *countersView) String() string {
	var b strings.Builder
	if v.done != "" {
		fmt.Fprintln(&b, v.done)
	}
	fmt.Fprintf(&b, "%s %s   %s\n", terminal.Printable(v.answer.Domain), terminal.Printable(v.answer.Descriptor),
		v.paint.Dim("rule "+terminal.Printable(descriptors.ReadablePath(v.answer.Path))))
	for i := range v.answer.Limits {
		l := &v.answer.Limits[i]
		if v.done == "" {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s   %s\n", terminal.Printable(l.Limit), v.standing(l))
		if v.done == "" {
			if l.Earlier > 0 {
				fmt.Fprintf(&b, "        … %s before those that --json lists\n", terminal.Count(int(l.Earlier), "hit"))
			}
			for j := range l.Levels {
				v.level(&b, &l.Levels[j])
			}
		}
	}
	return b.String()
}

// standing tells how full a limit is.
func (v *countersView) standing(l *admin.LimitAnswer) string {
	room, _, _ := strings.Cut(l.Limit, "/")
	ends := "resets in "
	if l.Burst > 0 {
		room, ends = fmt.Sprint(l.Burst), "the next leaks in "
	}
	remaining := fmt.Sprintf("%d remaining", l.Remaining)
	if l.Remaining == 0 {
		remaining = v.paint.Red(remaining)
	}
	out := fmt.Sprintf("%d of %s, %s", l.Hits, terminal.Printable(room), remaining)
	if l.Hits > 0 {
		out += ", " + ends + terminal.Span(l.ResetSeconds)
	}
	return out
}

// level appends a level's buckets, one a line.
func (v *countersView) level(b *strings.Builder, l *admin.LevelAnswer) {
	label := terminal.Printable(l.Width)
	buckets := l.Buckets
	if hidden := len(buckets) - maxBucketRows; hidden > 0 {
		var hits uint64
		for _, bucket := range buckets[:hidden] {
			hits += bucket.Hits
		}
		what := "buckets"
		if l.Width == instant {
			what = "instants"
		}
		fmt.Fprintf(b, "  %-4s  … %d earlier %s hold %s (--json lists them)\n", label, hidden, what, terminal.Count(int(hits), "hit"))
		label, buckets = "", buckets[hidden:]
	}
	most, digits := uint64(1), 1
	for _, bucket := range buckets {
		most = max(most, bucket.Hits)
		digits = max(digits, len(fmt.Sprint(bucket.Hits)))
	}
	layout := layoutOf(l.Width)
	for _, bucket := range buckets {
		begin := time.UnixMicro(int64(math.Round(bucket.Start * 1e6))).In(v.zone).Format(layout)
		fmt.Fprintf(b, "  %-4s  %s  %*d", label, begin, digits, bucket.Hits)
		if l.Width != instant { // instants hold a hit or two
			bar := strings.Repeat("█", int((float64(bucket.Hits)*barWidth+float64(most)-1)/float64(most)))
			b.WriteString("  " + v.paint.Dim(bar))
		}
		b.WriteByte('\n')
		label = ""
	}
}

// layoutOf returns how the begin of a bucket is written. Buckets of a second or less seldom outlive the day.
func layoutOf(width string) string {
	switch width {
	case instant:
		return "2006-01-02 15:04:05.000000"
	case "50ms":
		return "15:04:05.00"
	case "1s":
		return "15:04:05"
	}
	return "2006-01-02 15:04"
}
