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

	rules     *rules    // that decide it; nil if none did
	matches   []match   // of each descriptor
	pending   []pending // of each check
	checks    []backend.Check
	decisions []backend.Decision
	refunds   backend.Subset // what a refused request gives back
	keys      []byte
	ownLimits []descriptors.Limit // overrides, and what is left of limits that others replace in part
	replaced  []string            // names of limits that others replace
}

// match is what applies to a descriptor, before what those of the request's other descriptors replace.
type match struct {
	descriptors.Match
	own []descriptors.Limit // that the request brings, in place of its rule's; nil: none
}

// pending is what is known of a check besides, until its decision is recorded.
type pending struct {
	descriptor int
	place      int      // of its rule
	shadow     bool     // the limit is that of a rule in shadow mode
	recorded   bool     // its hits are; not those of looks, nor of refunds where nobody reads them
	key        hits.Key // of the check there
}

// Request is RateLimitRequest in weir's own types.
type Request struct {
	Domain      string
	Hits        uint32 // of descriptors that carry none of their own; 0 means 1
	Descriptors []Descriptor
	Cut         bool      // the message was too long, and only its beginning was read
	At          time.Time // when it came, for the denials that are kept
}

// Descriptor is RateLimitDescriptor in weir's own types.
type Descriptor struct {
	Entries     descriptors.Descriptor
	Override    Override
	HasOverride bool
	Hits        uint64 // if HasHits; 0 looks and charges nothing
	HasHits     bool
	Refund      bool // give the hits back (is_negative_hits)
}

// Override is a limit that the request itself brings. One that makes no sense is as good as none.
type Override struct {
	Requests      uint32
	Unit          descriptors.Unit // 0 for a unit that weir does not know
	Multiplier    uint32           // units in the window if HasMultiplier, else 1
	HasMultiplier bool
}

// Verdict is RateLimitResponse in weir's own types. It points into its Call.
type Verdict struct {
	Result        Result
	Statuses      []Status // one per descriptor, in their order
	Message       string   // body for the answer to the denied request, "" for none
	Degraded      bool     // some status was decided while the store is away
	UnknownDomain bool     // no file configures the domain
	// TooLarge is that the request has more than weir takes. Nothing of it is counted, and it has no Statuses. It is over
	// if some rule of its domain refuses requests, or it brings a limit along: an error would pass wherever Envoy's failure_mode_deny is off.
	TooLarge bool
}

// Status is the answer for one descriptor: what was decided about it, and by what rule.
type Status struct {
	backend.Decision // zero where nothing was to be decided; NextIn is 0 of a rule in shadow mode, which lets nobody wait

	Outcome  Outcome
	Rule     *descriptors.Rule  // that matched, nil if none did
	Limit    *descriptors.Limit // the strictest of its limits; nil if none applies
	Override bool               // the request brings the limit with it
	Quota    bool               // over, it refuses the request only if all quotas of the request are
	Metadata map[string]any     // of the rule that limits it, for answers that let pass; shared by all requests
}

// Outcome is what became of one descriptor.
type Outcome uint8

// The outcomes of a descriptor.
const (
	NoLimit    Outcome = iota // none applies, or Err says why none was decided
	Unlimited                 // a rule lets everything pass, uncounted
	Within                    // the limits have room
	Over                      // it refuses the request, unless it is a quota
	ShadowOver                // over a limit of a rule in shadow mode, which refuses nothing
)

// Path returns the path of the rule that matched, descriptors.UnmatchedPath if none did.
func (s *Status) Path() string {
	if s.Rule == nil {
		return descriptors.UnmatchedPath
	}
	return s.Rule.Path
}

// AddDescriptor appends a descriptor without entries and returns it. It uses the room of former requests.
func (r *Request) AddDescriptor() *Descriptor {
	n := len(r.Descriptors)
	r.Descriptors = slices.Grow(r.Descriptors, 1)[:n+1]
	d := &r.Descriptors[n]
	*d = Descriptor{Entries: d.Entries[:0]}
	return d
}

// maxKept bounds the entries of a descriptor that Reset keeps memory for.
const maxKept = 16

// Reset empties the call. It keeps no reference to what the request and the rules held.
func (c *Call) Reset() {
	for i := range c.Descriptors {
		entries := c.Descriptors[i].Entries
		clear(entries)
		if cap(entries) > maxKept {
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

// cleared returns the room of a slice that refers to nothing any more.
func cleared[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// Result is how a request ended.
type Result uint8

// The results of a request.
const (
	OK           Result = iota
	OverLimit           // it is refused
	Invalid             // the request itself is wrong
	Unavailable         // no verdict could be given
	Shadowed            // over a limit, and let through as everything is; see Options.Shadow
	TooLarge            // in statistics alone: whatever the verdict on a request that is too large
	Unconfigured        // no verdict could be given, for want of a configuration
	Results      = int(Unconfigured) + 1
)

// Counted returns the result that statistics count.
func (v *Verdict) Counted() Result {
	if v.TooLarge {
		return TooLarge
	}
	return v.Result
}

// String returns the result's name in metrics, where it is the outcome. Unconfigured is a kind of Unavailable there.
func (r Result) String() string {
	return [Results]string{"ok", "over", "invalid", "unavailable", "shadow", "too_large", "unavailable"}[r]
}
