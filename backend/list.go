package backend

import (
	"context"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Lister is the operator's way to the keys that a store holds. Its method may be called by any number of goroutines.
type Lister interface {
	// List looks at the keys that the store holds, in no order, until it has seen all of them or the listing's time is
	// over; Listed says how far it came. It changes nothing, and rests for as long as it works at least, so that checks
	// do not wait for it. Its error is that of a store, or a server of it, that is away, refuses or is closed, or of
	// ctx; what was seen by then is in Listed too.
	//
	// A store at rest shows each of its keys once, unless a server makes its table of keys larger or smaller meanwhile:
	// then some may be shown twice. Keys that come or go while it looks may be missed. Where the time does not suffice,
	// the next call of the same process goes on where this one ended.
	List(ctx context.Context, l Listing) (Listed, error)
}

// Listing says which keys to look at, and receives them. Its functions are called by one goroutine at a time. They must
// return soon, and must not keep their slices.
type Listing struct {
	// For is how long to look, above 0, where the store is another process. What is under way then is waited for, at
	// most for the store's own timeout. A store in this process looks at all keys.
	For time.Duration
	// Limits returns the limits of a key, as a Check has them, none to pass it over.
	Limits func(key []byte) []descriptors.Limit
	// Visit is told what a key holds of each of these limits.
	Visit func(key []byte, limits []descriptors.Limit, holds []Glance)
}

// Glance is a cheap reading of one limit of a key.
type Glance struct {
	Hits    uint64        // that count now; no more than these if it is not exact
	ResetIn time.Duration // until the oldest counted bucket leaves, or the next hit leaks; 0 if nothing counts, or it is not exact
	Exact   bool          // else Inspector tells
}

// Listed is how far a listing came.
type Listed struct {
	Seen     uint64 // keys that were looked at; in Redis those of other programs are among them
	Held     uint64 // keys that there were in the same places when it began, likewise
	Unread   uint64 // keys with limits that could not be read: their servers changed, or they are of another kind
	Complete bool   // every key was seen that was there all the time
}

// Add adds what was seen in another place.
func (l *Listed) Add(other Listed) {
	l.Seen += other.Seen
	l.Held += other.Held
	l.Unread += other.Unread
	l.Complete = l.Complete && other.Complete
}
