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

// MaxChecks is the most checks in a call of [Counter.Decide], and in a batch to a server.
const MaxChecks = 64

// Never is the RetryIn of a check that asks for more hits than its limit ever allows.
const Never time.Duration = math.MaxInt64

// Check is one question: may these hits pass under all of these limits? State belongs to the key and, for each
// limit, to its algorithm, window and precision.
type Check struct {
	Key    []byte              // not empty; see descriptors.Match.AppendKey
	Limits []descriptors.Limit // at least one, no two with the same state, none Mixed; built by descriptors.NewLimit
	Op     Op
	Hits   uint64             // ignored by Look
	Charge descriptors.Charge // zero: each limit by its algorithm

	// Lease, if not nil, asks for a lease or settles one, and takes the store's answer. Stores that do not lease
	// ignore it.
	Lease *Lease

	// Package guard reads the following fields; stores ignore them.

	OnFailure descriptors.Policy // decides while the store is away
	Enforced  bool               // a denial of the check refuses the whole request
	Leases    bool               // hits of the key may be leased
	Rate      float32            // estimated hits a second of the key in this process, before these
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

// Source tells who decided a check, and on what grounds.
type Source uint8

const (
	// FromStore is the zero value: the store counted.
	FromStore Source = iota
	// FromDenyCache means that this process has cached a denial of the store, which still holds.
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

// Decision is the answer to one check. Package window computes it, guard and the request path add to it, and the
// answer to Envoy, metrics and denials are made of it.
type Decision struct {
	Allowed   bool
	Strictest int    // index of the limit that the other fields speak of
	Before    uint64 // hits that counted just before this check
	Remaining uint64 // hits that would still fit after it; 0 if denied

	// ResetIn of an allowed check is the time until the oldest counted bucket leaves the window, or the next hit leaks.
	// If no hits count, it is the rest of a fixed window, and 0 for other algorithms. ResetIn of a denied check equals
	// RetryIn. If that is Never, ResetIn is the time until no hits count under the limit that the check exceeds; if none
	// count now, it is the window.
	ResetIn time.Duration
	// RetryIn is 0 for an allowed check, else the time until a check of this size fits under all limits if no other hits
	// come, to the microsecond, or Never. A limit that admitted this check and is full now delays it too.
	RetryIn time.Duration
	// NextIn of an allowed count is the time until another check of this size fits if no other hits come, 0 if one fits
	// now. Of all other checks it is 0.
	NextIn time.Duration

	Source Source
	Reason Reason             // why Source is degraded or Err is set; else 0
	Policy descriptors.Policy // the failure policy that decided; else 0

	// Err is why the store gave no answer. Only Reason and Policy are then set too, by package guard.
	// The check was counted once or not at all. Other checks of the call may have answers.
	Err error
}

// Counter is a store of counts. All its methods may be called by any number of goroutines.
type Counter interface {
	// Decide fills out[i] for up to MaxChecks checks[i]. A key that comes twice is charged twice, in order. Decide asks
	// all shards at the same time, each at most once. It returns before ctx's deadline, counts a check at most once even
	// if a reply is lost, and keeps neither checks nor out. Its error means misuse or a closed counter, never a store
	// that is away.
	Decide(ctx context.Context, checks []Check, out []Decision) error
	// Close saves counts that the store persists, and releases its resources. Later calls of Decide return ErrClosed.
	Close() error
}

// ErrClosed is the error of Decide after Close.
var ErrClosed = errors.New("counter is closed")

// DecideAll calls Decide, and returns an error also if one of the checks has no answer.
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

// Validate returns an error if no store can take the arguments of this call of Decide. It is cheap, so it does not
// check the limits; backendtest.Validate does, in tests.
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
