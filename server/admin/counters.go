package admin

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
)

const maxGrant = 1<<53 - 1 // hits of one grant

// Counters serves /api/v1/counters: GET shows the counts of a descriptor's limits, DELETE resets them, POST to /grant
// gives hits back, and GET of /top lists the keys with the most hits. All fields are required.
type Counters struct {
	Rules     Rules
	Counter   backend.Counter // for grants
	Store     backend.Inspector
	Recorder  *hits.Recorder
	Since     time.Time // when the recorder was made
	Now       func() time.Time
	Log       *slog.Logger // gets a line for each change
	LogValues bool         // also log the values of descriptors, which may be personal
}

var errUnconfigured = refuse(http.StatusServiceUnavailable, "No rate limit configuration is loaded yet.")

// target is the descriptor whose counters are shown or changed.
type target struct {
	domain     string
	descriptor descriptors.Descriptor
	rule       *descriptors.Rule
	key        []byte
	hits       uint64               // of a grant; 0 for a reset
	before     []backend.LimitCount // the counts before a change
}

// change is a change of the counters of a target.
type change struct {
	name string
	do   func(context.Context, *target) error
}

func (c *Counters) register(mux *http.ServeMux, p *Parts) {
	access := p.Access
	mux.HandleFunc("GET /api/v1/counters", c.handler(access, nil, "domain", "descriptor"))
	mux.HandleFunc("DELETE /api/v1/counters", c.handler(access, &change{"reset", c.reset}, "domain", "descriptor"))
	mux.HandleFunc("POST /api/v1/counters/grant", c.handler(access, &change{"grant", c.grant}, "domain", "descriptor", "hits"))
	mux.HandleFunc("GET /api/v1/counters/top", c.topHandler(p))
}

// handler reads a target from these parameters, applies the change unless it is nil, and shows the counters.
func (c *Counters) handler(access *Access, ch *change, names ...string) http.HandlerFunc {
	return serveJSON("The counters cannot be reached: ", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if ch != nil {
			if err := access.mayWrite(r); err != nil {
				return nil, err
			}
		}
		q, err := c.read(r, names)
		if err == nil && ch != nil {
			err = c.apply(r, q, ch)
		}
		if err != nil {
			return nil, err
		}
		return c.answer(r.Context(), q)
	})
}

// apply inspects the counters of a target, changes them and logs that.
func (c *Counters) apply(r *http.Request, q *target, ch *change) (err error) {
	if q.before, err = c.Store.Inspect(r.Context(), q.key, q.rule.Limits); err != nil {
		return err
	}
	log := c.Log.With("who", r.RemoteAddr, "what", ch.name, "domain", q.domain, "path", q.rule.Path)
	if c.LogValues {
		log = log.With("descriptor", q.descriptor.String())
	}
	if q.hits > 0 {
		log = log.With("hits", q.hits)
	}
	if err = ch.do(r.Context(), q); err != nil {
		log.Warn("counters may not have changed: the store failed", "error", err)
	} else {
		log.Info("counters changed")
	}
	return err
}

func (c *Counters) reset(ctx context.Context, q *target) error { return c.Store.Reset(ctx, q.key) }

func (c *Counters) grant(ctx context.Context, q *target) error {
	var out [1]backend.Decision
	err := backend.DecideAll(ctx, c.Counter, []backend.Check{{
		Key: q.key, Limits: q.rule.Limits, Op: backend.Refund, Hits: q.hits, Charge: q.rule.Charge,
		OnFailure: descriptors.PolicyError, // an operator must see that nothing was given back
	}}, out[:])
	if err == nil { // the exact count; others may have counted since the inspection
		q.before[out[0].Strictest].Hits = out[0].Before
	}
	return err
}

func (c *Counters) read(r *http.Request, names []string) (*target, error) {
	parameters, err := parametersOnly(r, names...)
	if err != nil {
		return nil, err
	}
	q := &target{domain: parameters.Get("domain")}
	if q.domain == "" {
		return nil, refuse(http.StatusBadRequest, "domain is missing: name the domain that the rules stand in.")
	}
	if q.descriptor, err = descriptors.ParseDescriptor(parameters.Get("descriptor")); err != nil {
		return nil, refuse(http.StatusBadRequest, "descriptor: %v.", err)
	}
	if _, given := parameters["hits"]; given {
		q.hits, err = strconv.ParseUint(parameters.Get("hits"), 10, 64)
		if err != nil || q.hits < 1 || q.hits > maxGrant {
			return nil, refuse(http.StatusBadRequest, "hits must be a whole number from 1 to %d, not %q.",
				uint64(maxGrant), parameters.Get("hits"))
		}
	} else if slices.Contains(names, "hits") {
		q.hits = 1
	}
	return q, c.match(q)
}

// match sets the rule and the key of a target.
func (c *Counters) match(q *target) error {
	config := c.Rules.Config()
	if config == nil {
		return errUnconfigured
	}
	m := config.Match(q.domain, q.descriptor)
	switch {
	case m.Rule == nil:
		return refuse(http.StatusNotFound, "%s Nothing is counted for %q; weir check DIR --explain shows why.",
			config.Explain(q.domain, q.descriptor).Reason, q.descriptor)
	case len(m.Rule.Limits) == 0:
		return refuse(http.StatusNotFound, "Rule %q (%s) is unlimited, so nothing is counted for %q; weir check DIR --explain shows it.",
			descriptors.ReadablePath(m.Rule.Path), m.Rule.Where, q.descriptor)
	}
	q.rule, q.key = m.Rule, m.AppendKey(nil, q.domain, q.descriptor)
	return nil
}

// CountersAnswer is the answer of /api/v1/counters about a descriptor.
type CountersAnswer struct {
	Domain     string        `json:"domain"`
	Descriptor string        `json:"descriptor"`
	Path       string        `json:"path"`
	Key        string        `json:"key"`
	Limits     []LimitAnswer `json:"limits"`
	*Changed                 // only of DELETE and POST
}

// Changed is the result of a change. Each limit has its own count; this is that of the limit with the most hits.
type Changed struct {
	Asked      uint64 `json:"asked,omitempty"` // hits of a grant
	HitsBefore uint64 `json:"hits_before"`     // hits just before
	GivenBack  uint64 `json:"given_back"`      // hits of these that were given back
}

// LimitAnswer is one of the descriptor's limits.
type LimitAnswer struct {
	Limit        string        `json:"limit"` // 10/minute
	Algorithm    string        `json:"algorithm"`
	Burst        uint64        `json:"burst,omitempty"`       // of a token_bucket
	HitsBefore   *uint64       `json:"hits_before,omitempty"` // hits just before a change
	Hits         uint64        `json:"hits"`
	Remaining    uint64        `json:"remaining"`
	ResetSeconds int64         `json:"reset_seconds"`    // until the oldest bucket leaves or the next hit leaks, rounded up; 0 if nothing counts
	Levels       []LevelAnswer `json:"levels"`           // finest first; none for a sliding_log and a token_bucket
	Leased       uint64        `json:"leased,omitempty"` // hits leased to replicas, and not settled yet
}

// LevelAnswer has the buckets of one width.
type LevelAnswer struct {
	Width   string         `json:"width"`   // 1s
	Buckets []BucketAnswer `json:"buckets"` // those that hold hits, oldest first
}

// BucketAnswer is a bucket that holds hits.
type BucketAnswer struct {
	Start float64 `json:"start"` // Unix seconds; whole ones unless the width is 50ms
	Hits  uint64  `json:"hits"`
}

func (c *Counters) answer(ctx context.Context, q *target) (CountersAnswer, error) {
	counts, err := c.Store.Inspect(ctx, q.key, q.rule.Limits)
	a := CountersAnswer{Domain: q.domain, Descriptor: q.descriptor.String(), Path: q.rule.Path, Key: string(q.key)}
	if q.before != nil {
		a.Changed = &Changed{}
	}
	if stem, plain := descriptors.RatelimitKey(q.key); plain {
		a.Key = string(stem)
	}
	for i, n := range counts {
		l := LimitAnswer{
			Limit: n.Limit.String(), Algorithm: n.Limit.Algorithm.String(), Burst: n.Limit.Burst, Hits: n.Hits,
			Remaining: n.Remaining(), Levels: []LevelAnswer{},
			ResetSeconds: int64((n.ResetIn + time.Second - 1) / time.Second), Leased: n.Leased,
		}
		for level, listed := range n.Levels {
			buckets := make([]BucketAnswer, 0, len(listed))
			for _, b := range listed {
				buckets = append(buckets, BucketAnswer{seconds(b.Begin), b.Hits})
			}
			l.Levels = append(l.Levels, LevelAnswer{n.Limit.LevelNames()[level], buckets})
		}
		if q.before != nil {
			l.HitsBefore = &q.before[i].Hits
			before := max(*l.HitsBefore, a.HitsBefore)
			*a.Changed = Changed{Asked: q.hits, HitsBefore: before, GivenBack: min(before, cmp.Or(q.hits, math.MaxUint64))}
		}
		a.Limits = append(a.Limits, l)
	}
	return a, err
}
