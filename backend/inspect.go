package backend

import (
	"context"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Inspector is the operator's way to the counters of one key; requests take Counter's. Its methods may be called by any
// number of goroutines. Hits are given back by a Refund of the Counter.
type Inspector interface {
	// Inspect tells what counts now under each of the limits, in their order. It changes no more than a Look does. A key
	// that nobody has asked about holds no hits. Its error tells of a store that is away or closed.
	Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]LimitCount, error)
	// Reset forgets all that is counted for a key, under whatever limit. Its error tells of a store that is away or
	// closed; whether the key was reset is then unknown.
	Reset(ctx context.Context, key []byte) error
}

// LimitCount is what a key holds of one limit.
type LimitCount struct {
	Limit   descriptors.Limit
	Hits    uint64        // that count now
	ResetIn time.Duration // until the oldest hit no longer counts; 0: none does
	Levels  [][]Bucket    // one for each of Limit.Levels, finest first, oldest bucket first; none of a log or token bucket
	Leased  uint64        // of Hits, those that processes may admit by leases or have admitted since; see Lease
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
