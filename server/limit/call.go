package limit

import (
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
)

// Call is one request and its verdict, with reusable memory: fill the Request, pass the Call to [Limiter.Decide], read
// the Verdict, then Reset. A Call is for one goroutine at a time.
type Call struct {
	Request
	Verdict

	rules     *rules    // the configuration that decides it; nil if none did
	matches   []match   // one per descriptor
	pending   []pending // one per check
	checks    []backend.Check
	decisions []backend.Decision
	refunds   backend.Subset // checks that give a refused request's hits back
	keys      []byte
	ownLimits []descriptors.Limit // overrides, and what remains of limits that are replaced in part
	replaced  []string            // names of limits that other descriptors replace
}

// match is the match of a descriptor, before other descriptors of the request replace its limits.
type match struct {
	descriptors.Match
	own []descriptors.Limit // the request's own limits, in place of the rule's; nil: none
}

// pending holds what recording the decision on a check needs.
type pending struct {
	descriptor int
	index      int      // see descriptors.Config.RuleIndex
	shadow     bool     // the rule is in shadow mode
	recorded   bool     // its hits are counted; looks are not, nor refunds unless the recorder counts them
	key        hits.Key // the hash of the check's key
}

// Request is RateLimitRequest in weir's own types.
type Request struct {
	Domain      string
	Hits        uint32 // for descriptors without their own; 0 means 1
	Descriptors []Descriptor
	Cut         bool      // the message was too long, and only its beginning was read
	At          time.Time // when it arrived
}

// Descriptor is RateLimitDescriptor in weir's own types.
type Descriptor struct {
	Entries     descriptors.Descriptor
	Override    Override
	HasOverride bool
	Hits        uint64 // if HasHits; 0 only looks and charges nothing
	HasHits     bool
	Refund      bool // give the hits back (is_negative_hits)
}

// Override is a limit that the request itself carries. An invalid one is ignored.
type Override struct {
	Requests      uint32
	Unit          descriptors.Unit // 0 for a unit that weir does not know
	Multiplier    uint32           // units in the window if HasMultiplier, else 1
	HasMultiplier bool
}

// Verdict is RateLimitResponse in weir's own types. It points into its Call.
type Verdict struct {
	Result        Result
	Statuses      []Status // one per descriptor, in order
	Message       string   // body for the answer to the denied request, "" for none
	Degraded      bool     // a failure policy decided some status
	UnknownDomain bool     // no file configures the domain
	// TooLarge says that the request exceeds [MaxDescriptors], [MaxEntries] or the message size. Nothing of it is
	// counted, and it has no Statuses. It is over the limit if a rule of its domain refuses requests or it has an
	// override: an error would pass wherever Envoy's failure_mode_deny is off.
	TooLarge bool
}

// Status is the answer for one descriptor: the decision, and the rule behind it.
type Status struct {
	backend.Decision // zero if no limit applied; NextIn is 0 in shadow mode, which makes nobody wait

	Outcome  Outcome
	Rule     *descriptors.Rule  // the match, nil if none
	Limit    *descriptors.Limit // the strictest of its limits; nil if none applies
	Override bool               // the limit comes with the request
	Quota    bool               // refuses the request only if all quotas of the request are over
	Metadata map[string]any     // of the rule, for answers that let pass; shared by all requests, read-only
}

// Outcome is the result for one descriptor.
type Outcome uint8

// The outcomes of a descriptor.
const (
	NoLimit    Outcome = iota // no limit applies, or Err says why there is no decision
	Unlimited                 // a rule lets everything pass, uncounted
	Within                    // the limits have room
	Over                      // over a limit: it refuses the request, unless it is a quota
	ShadowOver                // over a limit of a rule in shadow mode, which refuses nothing
)

// Path returns the path of the rule that matched, descriptors.UnmatchedPath if none did.
func (s *Status) Path() string {
	if s.Rule == nil {
		return descriptors.UnmatchedPath
	}
	return s.Rule.Path
}

// AddDescriptor appends a descriptor without entries and returns it. It reuses memory of earlier requests.
func (r *Request) AddDescriptor() *Descriptor {
	n := len(r.Descriptors)
	r.Descriptors = slices.Grow(r.Descriptors, 1)[:n+1]
	d := &r.Descriptors[n]
	*d = Descriptor{Entries: d.Entries[:0]}
	return d
}

// maxReusedEntries is how many entries a descriptor may have for its memory to be reused after Reset.
const maxReusedEntries = 16

// Reset empties the call. It drops all references to the request and the rules.
func (c *Call) Reset() {
	for i := range c.Descriptors {
		entries := c.Descriptors[i].Entries
		clear(entries)
		if cap(entries) > maxReusedEntries {
			entries = nil
		}
		c.Descriptors[i] = Descriptor{Entries: entries[:0]}
	}
	c.refunds.Reset()
	*c = Call{
		Request:   Request{Descriptors: c.Descriptors[:0]},
		Verdict:   Verdict{Statuses: cleared(c.Statuses)},
		matches:   cleared(c.matches),
		pending:   cleared(c.pending),
		checks:    cleared(c.checks),
		decisions: cleared(c.decisions),
		refunds:   c.refunds,
		keys:      c.keys[:0],
		ownLimits: cleared(c.ownLimits),
		replaced:  cleared(c.replaced),
	}
}

// cleared zeroes a slice and returns it with length 0.
func cleared[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// Result is the result of a request.
type Result uint8

// The results of a request.
const (
	OK           Result = iota
	OverLimit           // it is refused
	Invalid             // the request itself is wrong
	Unavailable         // no verdict: the store failed
	Shadowed            // over a limit, but passes; see Options.Shadow
	TooLarge            // only in statistics: any verdict on a request that is too large
	Unconfigured        // no verdict: no configuration
	Results      = int(Unconfigured) + 1
)

// Counted returns the result that statistics count.
func (v *Verdict) Counted() Result {
	if v.TooLarge {
		return TooLarge
	}
	return v.Result
}

// String returns the value of the label outcome in metrics. Unconfigured is a kind of Unavailable there.
func (r Result) String() string {
	return [Results]string{"ok", "over", "invalid", "unavailable", "shadow", "too_large", "unavailable"}[r]
}
