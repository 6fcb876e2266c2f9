package backend

import (
	"context"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Inspector shows operators the counters of one key, and resets them; to give hits back, they send a Refund to the
// Counter. Its methods may be called by any number of goroutines.
type Inspector interface {
	// Inspect returns the counts of a key under each of the limits, in their order. Like a Look it changes no count. A key
	// that the store does not have has no hits. An error means that the store is away or closed.
	Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]LimitCount, error)
	// Reset removes all counts of a key, under all limits. An error means that the store is away or closed; the key may or
	// may not have been reset.
	Reset(ctx context.Context, key []byte) error
}

// LimitCount is the count of a key under one limit.
type LimitCount struct {
	Limit   descriptors.Limit
	Hits    uint64        // that count now
	ResetIn time.Duration // until the oldest hit no longer counts; 0 without hits
	Levels  [][]Bucket    // by level of Limit.Levels, finest first, oldest bucket first; nil for a log or token bucket
	Leased  uint64        // part of Hits that is leased to processes, used or not; see Lease
}

// Bucket is a bucket that holds hits.
type Bucket struct {
	Begin time.Time // UTC
	Width time.Duration
	Hits  uint64
}

// AddBucket appends a bucket, or adds its hits to the last one if that begins at the same moment.
func AddBucket(buckets []Bucket, b Bucket) []Bucket {
	if last := len(buckets) - 1; last >= 0 && buckets[last].Begin.Equal(b.Begin) {
		buckets[last].Hits += b.Hits
		return buckets
	}
	return append(buckets, b)
}

// NewLimitCount sums up the buckets of a window, all of which count at now.
func NewLimitCount(l descriptors.Limit, levels [][]Bucket, now time.Time) LimitCount {
	c := LimitCount{Limit: l, Levels: levels}
	for _, b := range levels[0] {
		c.Hits += b.Hits
	}
	if c.Hits > 0 { // the oldest leaves a window after it began, and a precision more
		c.ResetIn = max(0, levels[0][0].Begin.Add(l.Window+l.Precision).Sub(now))
	}
	return c
}

// Remaining returns how many more hits fit.
func (c *LimitCount) Remaining() uint64 { return c.Limit.Capacity() - min(c.Limit.Capacity(), c.Hits) }
