// Package history is the contract between the packages that record, store and query hits: series of hits, numbered
// batches, tiers that grow coarser with age, and the arithmetic that downsamples counts and cuts query results into
// buckets. It reads no clock and has no store. Packages filehistory and redishistory are the stores; package export
// sends hits to them. README.md lists the promises.
package history

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Outcome is the outcome of hits. Each hit has one of the first four; Near is a part of Within.
type Outcome uint8

// The outcomes. Their numbers are stored: add to the end, never renumber.
const (
	Within        Outcome = iota // admitted
	Over                         // refused
	Shadow                       // beyond a limit that refused nothing: by shadow mode, or as a quota beside one with room
	Degraded                     // no store answered
	Near                         // within, but close to the limit
	Outcomes      = int(Near) + 1
	WholeOutcomes = int(Near) // number of outcomes, from the first one on, that add up to all hits
)

var outcomeNames = [Outcomes]string{"within", "over", "shadow", "degraded", "near"}

// String returns the outcome's name in queries and metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// IsPart reports whether hits of the outcome are also counted in another outcome, so that the number of all hits leaves
// them out.
func (o Outcome) IsPart() bool { return o == Near }

// ParseOutcome reads an outcome's name, or refused or denied, which mean Over.
func ParseOutcome(name string) (Outcome, error) {
	if name == "refused" || name == "denied" {
		return Over, nil
	}
	if o := slices.Index(outcomeNames[:], name); o >= 0 {
		return Outcome(o), nil
	}
	return 0, fmt.Errorf("%q is not an outcome: use one of %s", name, strings.Join(outcomeNames[:], ", "))
}

// OtherValue is the value of hits whose actual value is not among the heaviest of its rule, or has no series.
const OtherValue = "__other__"

// ID names a series. Two IDs are the same series exactly if they are equal.
type ID struct {
	Domain  string
	Path    string // path of the rule, escaped; see descriptors.Rule
	Outcome Outcome
	Value   string // value of the descriptor, if the rule has series for its values, else ""
}

// Compare orders series by domain, path, value and outcome.
func (id ID) Compare(other ID) int {
	return cmp.Or(strings.Compare(id.Domain, other.Domain), strings.Compare(id.Path, other.Path),
		strings.Compare(id.Value, other.Value), cmp.Compare(id.Outcome, other.Outcome))
}

// Partitions is the number of partitions of all series. It can never change.
const Partitions = 256

// Partition is a partition of all series. A store keeps a partition together, so that it can apply a batch as a whole
// or not at all.
type Partition uint8

// Partition returns the series' partition, by FNV-1a over the parts of its ID.
func (id ID) Partition() Partition {
	h := fnv.New64a()
	for _, part := range [...]string{id.Domain, id.Path, id.Value} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0xff})
	}
	_, _ = h.Write([]byte{byte(id.Outcome)})
	sum := h.Sum64()
	return Partition(sum ^ sum>>8 ^ sum>>16 ^ sum>>24 ^ sum>>32 ^ sum>>40 ^ sum>>48 ^ sum>>56)
}

// MaxTotal is how many hits a series can count in its lifetime. Stores refuse further hits, and report their number.
const MaxTotal = 1_000_000_000_000_000_000 - 1

// Increment adds hits of one series to one bucket: a minute or, for imported hits, a bucket of a coarser tier.
type Increment struct {
	ID     ID
	Minute int64  // minutes since 1970, of any moment in the bucket
	Hits   uint64 // 1 to MaxTotal
	Tier   Tier   // tier of the bucket
	Peak   uint64 // hits of the bucket's largest minute; unused if Tier is Minutes
}

// MaxBatch bounds the increments of a batch. So many take a Redis server about a quarter of a millisecond.
const MaxBatch = 200

// Batch is a batch of increments that a writer sends to one partition. After it was first sent, the writer must not
// change it, and sends it again until the store has answered. Stores rely on the comments of the fields.
type Batch struct {
	Writer string // random for each start of a process; not empty
	Seq    uint64 // 1 for the writer's first batch in this partition; 0 only asks for the position
	After  uint64 // the batch that this one follows: Seq-1, or less if batches between were given up as lost
	// Increments are at most MaxBatch increments of series of this partition, at most one for each bucket of a series.
	Increments []Increment
}

// maxMinute is in the year 9999.
const maxMinute = 253402300799 / Minute

// ApplyStatus says what a store did with a batch.
type ApplyStatus uint8

const (
	Applied   ApplyStatus = iota // counted now
	Duplicate                    // counted before; nothing was done
	Gap                          // the store lacks batches that this one follows; nothing was done
)

// Status returns the status of the batch in a partition that has this writer's batches up to last.
func (b *Batch) Status(last uint64) ApplyStatus {
	switch {
	case last >= b.Seq:
		return Duplicate
	case last < b.After:
		return Gap
	}
	return Applied
}

// ApplyResult is a store's answer to a batch.
type ApplyResult struct {
	Status ApplyStatus
	Last   uint64 // the last batch of this writer in the partition, 0 for none
	// Refused is the number of hits of batch Last that were not counted, as their increments would have brought a series
	// above MaxTotal. It is the same at each Apply until the next batch, so that none go unnoticed if a reply is lost.
	Refused uint64
}

// Store stores series. All its methods may be called by any number of goroutines and processes.
type Store interface {
	// Apply counts a batch in its partition as a whole or not at all, and once, however often it is sent. It downsamples a
	// series early that has more than Retention.MaxPoints points. After an error the batch may or may not have been
	// counted.
	Apply(ctx context.Context, p Partition, b Batch) (ApplyResult, error)
	// Downsample is the downsampling job: it moves buckets that are due to coarser tiers, and drops expired days. It uses
	// the earlier of now and the store's clock. It may be killed at any moment, run again and run in parallel.
	Downsample(ctx context.Context, now time.Time) (DownsampleResult, error)
	// Query calls yield with a snapshot of each series that matches, in no particular order, with the points that overlap
	// the query's range. A damaged series has an Err, and does not end the query. Query returns the first error of yield,
	// or an error of the store, such as a server that does not answer or a file with damaged pages.
	Query(ctx context.Context, q Query, yield func(Series) error) error
	// WaitReplicated returns nil once no failover can lose acknowledged batches. If ctx ends first, the error names the
	// servers whose failover still could.
	WaitReplicated(ctx context.Context) error
	// Close closes the store. It must be the last call.
	Close() error
}

// DownsampleResult is the result of a run of the downsampling job.
type DownsampleResult struct {
	Partitions int    // partitions that were visited without an error
	Series     uint64 // series that were changed
	Chunks     uint64 // chunks that were moved to the next tier, or lost expired days
	Points     uint64 // points that were moved or dropped
	Expired    uint64 // hits that were dropped with expired days
}

// Query asks for series and a range of time.
type Query struct {
	Domain, Path, Value *string // nil for any
	Outcomes            []Outcome
	From, To            int64 // Unix seconds; From inclusive, To exclusive
}

// Matches reports whether the query asks for a series.
func (q *Query) Matches(id ID) bool {
	matches := func(want *string, has string) bool { return want == nil || *want == has }
	return matches(q.Domain, id.Domain) && matches(q.Path, id.Path) && matches(q.Value, id.Value) &&
		(len(q.Outcomes) == 0 || slices.Contains(q.Outcomes, id.Outcome))
}

// IDs returns the series that the query names; nil if it leaves domain, path or value open.
func (q *Query) IDs() []ID {
	if q.Domain == nil || q.Path == nil || q.Value == nil {
		return nil
	}
	var ids []ID
	for o := range Outcomes {
		if id := (ID{Domain: *q.Domain, Path: *q.Path, Value: *q.Value, Outcome: Outcome(o)}); q.Matches(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Partitions returns the partitions that may have a series that the query asks for.
func (q *Query) Partitions() (all []Partition) {
	ids := q.IDs()
	for _, id := range ids {
		all = append(all, id.Partition())
	}
	for p := 0; p < Partitions && ids == nil; p++ {
		all = append(all, Partition(p))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Series is a snapshot of a series. The sums of all its points, in a query without a range, and Expired add up to
// Lifetime.
type Series struct {
	ID       ID
	Lifetime uint64 // all hits ever counted
	Expired  uint64 // part of Lifetime that was dropped with expired days
	Points   []Point
	Fine     bool // the series has points finer than a day, in the range or not, so its last hits are recent
	// Err is the first reason why a part of the series cannot be read, and names the key; nil if all of it was read. The
	// other fields have the readable parts.
	Err error
	// Unnamed means that the ID could not be read either and is empty. There may be several such series, and the query may
	// not match them.
	Unnamed bool
}

// Point is a bucket with hits. The points of a series do not overlap, and are ordered by time.
type Point struct {
	Start int64 // Unix seconds
	Tier  Tier
	Sum   uint64
	Peak  uint64 // hits of the largest minute that was known when the bucket was made; for a minute, Sum
}

// End returns where the bucket ends, in Unix seconds.
func (p Point) End() int64 { return p.Start + p.Tier.Width() }
