package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

// countersCommand shows and changes the counters of one descriptor, over the admin port of a running weir.
type countersCommand struct {
	Get   countersGet   `cmd:"" help:"Show what the limits of a descriptor have counted, bucket by bucket."`
	Reset countersReset `cmd:"" help:"Reset the counters of a descriptor."`
	Grant countersGrant `cmd:"" help:"Give hits back to a descriptor, the newest first."`
	Top   countersTop   `cmd:"" help:"List the keys of a domain or rule with the most hits, now or in the history."`
}

func (*countersCommand) Help() string {
	return `Sends requests to the admin port of a running weir. Weirs that share a Redis share their counters. Changes need the token
of weir's ADMIN_TOKEN_FILE or, if weir has none, a loopback address as its DEBUG_HOST; weir logs them. get and top ask all
weirs that --admin lists or resolves to, and name those that do not answer. Exit code: 0; 1 if there were no hits to reset
or to give back; 2 for an error.

    weir counters get   --domain shop --descriptor user=ann
    weir counters grant --domain shop --descriptor user=ann --hits 5 --token-file token
    weir counters reset --domain shop --descriptor user=ann --admin 10.0.0.7:6070 --json
    weir counters top   --domain shop --by over

--json prints the port's answer (server/admin/API.md): for each limit its levels, finest first, with their buckets, oldest
first. A sliding_log and a token_bucket have no buckets.`
}

// countersTarget has the flags of get, reset and grant.
type countersTarget struct {
	Domain     string `required:"" placeholder:"NAME" help:"The domain that the rules stand in."`
	Descriptor string `required:"" placeholder:"K=V,K=V" help:"The descriptor, as in weir call."`
	portFlags
}

type countersGet struct{ countersTarget }

func (c *countersGet) Run(ctx context.Context, out terminal.Output) error {
	if err := checkDescriptor(c.Descriptor); err != nil {
		return err
	}
	query := url.Values{"domain": {c.Domain}, "descriptor": {c.Descriptor}}
	return askEach(ctx, out, &c.portFlags, "/api/v1/counters", query, nil, func(a *admin.CountersAnswer, _ fleet) string {
		return (&countersView{answer: *a, zone: out.Zone, paint: terminal.PaintFor(out.Out)}).String()
	})
}

type countersReset struct{ countersTarget }

func (c *countersReset) Run(ctx context.Context, out terminal.Output) error {
	return c.run(ctx, out, http.MethodDelete, "", url.Values{})
}

type countersGrant struct {
	countersTarget
	Hits uint64 `default:"1" help:"How many hits to give back."`
}

func (c *countersGrant) Run(ctx context.Context, out terminal.Output) error {
	return c.run(ctx, out, http.MethodPost, "/grant", url.Values{"hits": {strconv.FormatUint(c.Hits, 10)}})
}

// run sends a request and prints the answer. Its error is terminal.ExitNo if there was nothing to change.
func (c *countersTarget) run(ctx context.Context, out terminal.Output, method, path string, query url.Values) error {
	if err := checkDescriptor(c.Descriptor); err != nil {
		return err
	}
	query.Set("domain", c.Domain)
	query.Set("descriptor", c.Descriptor)
	a, err := ask(ctx, out, &c.portFlags, method, "/api/v1/counters"+path, query, func(a *admin.CountersAnswer) string {
		return (&countersView{answer: *a, zone: out.Zone, paint: terminal.PaintFor(out.Out)}).String()
	})
	if err == nil && a.Changed != nil && a.HitsBefore == 0 {
		return terminal.ExitNo
	}
	return err
}

const (
	maxBucketRows = 60 // of a level: the newest
	barWidth      = 30 // columns of the longest bar
)

// countersView formats counters as text:
//
//	shop user=ann   rule user
//
//	10/minute   7 of 10, 3 remaining, resets in 29s
//	  1s    12:00:12  3  ███████
//	        12:00:33  4  ██████████
//	  1m    2026-11-21 12:00  7  ██████████
//
// A sliding log and a token bucket have no buckets. After a change its result comes first, and buckets are omitted.
type countersView struct {
	answer admin.CountersAnswer
	zone   *time.Location
	paint  terminal.Paint
}

func (v *countersView) String() string {
	var b strings.Builder
	changed := v.answer.Changed
	b.WriteString(describeChange(changed))
	fmt.Fprintf(&b, "%s %s   %s\n", descriptors.Printable(v.answer.Domain), descriptors.Printable(v.answer.Descriptor),
		v.paint.Dim("rule "+readablePath(v.answer.Path)))
	for _, l := range v.answer.Limits {
		if changed == nil {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s   %s\n", descriptors.Printable(l.Limit), v.usage(&l))
		if changed == nil {
			for j := range l.Levels {
				v.level(&b, &l.Levels[j])
			}
		}
	}
	return b.String()
}

// describeChange describes a change, nil for none.
func describeChange(c *admin.Changed) string {
	switch {
	case c == nil:
		return ""
	case c.HitsBefore > 0 && c.Asked > 0:
		return fmt.Sprintf("Gave back %s of %s: %s counted.\n", terminal.Thousands(c.GivenBack), terminal.Count(int(c.Asked), "hit"),
			terminal.Thousands(c.HitsBefore))
	case c.HitsBefore > 0:
		return fmt.Sprintf("Forgot %s.\n", terminal.Count(int(c.GivenBack), "hit"))
	}
	return "Nothing was counted under this key.\n"
}

// usage describes how full a limit is.
func (v *countersView) usage(l *admin.LimitAnswer) string {
	room, _, _ := strings.Cut(l.Limit, "/")
	ends := "resets in "
	if l.Burst > 0 {
		room, ends = fmt.Sprint(l.Burst), "the next leaks in "
	}
	remaining := fmt.Sprintf("%d remaining", l.Remaining)
	if l.Remaining == 0 {
		remaining = v.paint.Red(remaining)
	}
	leased := ""
	if l.Leased > 0 {
		leased = fmt.Sprintf(" (%d leased)", l.Leased)
	}
	out := fmt.Sprintf("%d of %s%s, %s", l.Hits, descriptors.Printable(room), leased, remaining)
	if l.HitsBefore != nil {
		out = fmt.Sprintf("%d before, %s", *l.HitsBefore, out)
	}
	if l.Hits > 0 {
		out += ", " + ends + terminal.FormatSeconds(l.ResetSeconds)
	}
	return out
}

func (v *countersView) level(b *strings.Builder, l *admin.LevelAnswer) {
	label := descriptors.Printable(l.Width)
	buckets := l.Buckets
	if hidden := len(buckets) - maxBucketRows; hidden > 0 {
		var hits uint64
		for _, bucket := range buckets[:hidden] {
			hits += bucket.Hits
		}
		fmt.Fprintf(b, "  %-4s  … %d earlier buckets hold %s (--json lists them)\n", label, hidden, terminal.Count(int(hits), "hit"))
		label, buckets = "", buckets[hidden:]
	}
	maxHits := uint64(1)
	for _, bucket := range buckets {
		maxHits = max(maxHits, bucket.Hits)
	}
	digits, layout := len(fmt.Sprint(maxHits)), cmp.Or(layouts[l.Width], "2006-01-02 15:04")
	for _, bucket := range buckets {
		bar := strings.Repeat("█", int((float64(bucket.Hits)*barWidth+float64(maxHits)-1)/float64(maxHits)))
		fmt.Fprintf(b, "  %-4s  %s  %*d  %s\n", label, timeOf(bucket.Start).In(v.zone).Format(layout), digits, bucket.Hits,
			v.paint.Dim(bar))
		label = ""
	}
}

// layouts are the time layouts of a bucket's start, by width. Buckets of a second or less are seldom older than a day.
var layouts = map[string]string{"50ms": "15:04:05.00", "1s": "15:04:05"}
