// Package backend is the contract between the request path and the stores that count. It holds the contract and its
// types, and nothing else; backend/memory is a store, backend/backendtest the conformance suite that each store passes,
// backend/window the arithmetic that all of them share.
package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Op is what a check does to its key.
type Op uint8

const (
	// Count asks whether Hits more fit and, as the limits' charge says, counts them.
	Count Op = iota
	// Look asks whether a limit is reached and changes nothing.
	Look
	// Refund takes Hits back, the newest first, never below zero.
	Refund
)

// MaxChecks is how many checks a call of [Counter.Decide] may have: as many as go to a server at once.
const MaxChecks = 64

// Never is the RetryIn of a check that asks for more hits than its limit ever allows.
const Never time.Duration = math.MaxInt64

// Check is one question: may these hits pass under all of these limits? State belongs to the key and, for each
// limit, to its algorithm, window and precision.
type Check struct {
	Key    []byte              // not empty; see descriptors.Match.AppendKey
	Limits []descriptors.Limit // at least one, no two with the same state, not Mixed; built by descriptors.NewLimit
	Op     Op
	Hits   uint64             // ignored by Look
	Charge descriptors.Charge // zero: each limit by its algorithm

	// Lease is what guard asks about leases besides, and the store's answer; nil: nothing. Stores that do not lease
	// leave it as it is.
	Lease *Lease

	// What follows is for package guard; stores do not look at it.

	OnFailure descriptors.Policy // what becomes of the hits while the store is away
	Enforced  bool               // denied, the check refuses the whole request
	Leases    bool               // hits may be leased beforehand
	Rate      float32            // hits a second that the key had in this process before these, as estimated
}

// ChargesAlways reports whether a check is counted under one of its limits even if it is denied.
func (c *Check) ChargesAlways() bool {
	for i := range c.Limits {
		if c.Charge.Always(&c.Limits[i]) {
			return true
		}
	}
	return false
}

// Source is who decided about a check.
type Source uint8

const (
	// FromStore is the zero value: the store counted.
	FromStore Source = iota
	// FromDenyCache means that this process knew the store's denial, which still holds.
	FromDenyCache
	// FromLease means that this process admitted hits that the store had granted it, or took such hits back.
	FromLease
	// FromLook means that the store looked and did not count, as the request is refused for another check of the call.
	FromLook
	// FromLocal means that this process counted by itself, while the store is away.
	FromLocal
	// FromPolicy means that nobody counted: a failure policy decided while the store is away.
	FromPolicy
)

// String returns the source's name in JSON and logs.
func (s Source) String() string {
	return [...]string{"store", "deny_cache", "lease", "look", "local", "policy"}[min(s, FromPolicy)]
}

// Degraded reports whether the decision was made without the store while it is away.
func (s Source) Degraded() bool { return s >= FromLocal }

// Decision is the answer to one check, from the arithmetic of package window on: guard and the request path fill in
// what they know besides, and hits, denials and answers are made of it.
type Decision struct {
	Allowed   bool
	Strictest int    // index of the limit that the other fields speak of
	Before    uint64 // hits that counted just before this check
	Remaining uint64 // hits that would still fit after it; 0 if denied

	// ResetIn is, for an allowed check, the time until the oldest counted bucket leaves, or the next hit leaks; where
	// nothing counts, until a fixed window ends, and 0 by other algorithms. For a denied check it is RetryIn. Where
	// that is Never, a limit whose number the check exceeds makes wait until all that counts now is gone, or for its
	// window if nothing counts.
	ResetIn time.Duration
	// RetryIn is 0 if allowed, else the time until one check of this size fits unless others take its place, to the
	// microsecond, or Never. It is that of all limits, also of one that admitted this check and is full now.
	RetryIn time.Duration
	// NextIn is, for an allowed count, the time until another check of this size fits unless others take its place: 0
	// if it would now. Else it is 0.
	NextIn time.Duration

	Source Source
	Reason Reason             // why Source is degraded, or Err is there; else 0
	Policy descriptors.Policy // that decided then; else 0

	// Err is why a store that is away gave no answer; only Reason and Policy are then filled in besides, by package
	// guard, and whether the check was counted is unknown: at most once. Other checks of the call may have answers.
	Err error
}

// Counter is a store of counts. All its methods may be called by any number of goroutines.
type Counter interface {
	// Decide fills out[i] for up to MaxChecks checks[i]; the same key twice is charged twice, in order. Each shard is asked at most
	// once, all at the same time. It returns before ctx's deadline, and counts a check at most once even when a reply
	// is lost. After it has returned it neither reads checks nor writes out. Its error means misuse or a closed
	// counter, never a store that is away.
	Decide(ctx context.Context, checks []Check, out []Decision) error
	// Close releases what the store holds, after saving what it keeps. Later calls of Decide give ErrClosed.
	Close() error
}

// ErrClosed is what Decide gives after Close.
var ErrClosed = errors.New("counter is closed")

// DecideAll is Decide for callers who need every answer: a check that has none is an error, too.
func DecideAll(ctx context.Context, c Counter, checks []Check, out []Decision) error {
	if err := c.Decide(ctx, checks, out); err != nil {
		return err
	}
	for i := range checks {
		if out[i].Err != nil {
			return out[i].Err
		}
	}
	return nil
}

// Validate returns what of a call of Decide no store could take, nil if there is nothing: it costs next to nothing.
// backendtest.Validate tells in tests whether the limits are right as well.
func Validate(checks []Check, out []Decision) error {
	switch {
	case len(out) < len(checks):
		return errors.New("backend: fewer decisions than checks")
	case len(checks) > MaxChecks:
		return fmt.Errorf("backend: a call of %d checks, and %d are the most", len(checks), MaxChecks)
	}
	for i := range checks {
		if len(checks[i].Key) == 0 || len(checks[i].Limits) == 0 {
			return errors.New("backend: a check without a key or a limit")
		}
	}
	return nil
}
