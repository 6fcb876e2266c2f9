// Package history is the contract between counting, storing and querying hits: series of hits, numbered batches, tiers
// that grow coarser with age, and the arithmetic that downsamples counts and cuts query results into buckets. It reads no
// clock and has no store. The stores are filehistory and redishistory below it, and export sends hits to them. README.md
// says what is promised.
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

// Outcome is what became of hits. Each hit has one of the first four; Near is a part of Within.
type Outcome uint8

// The outcomes. Their numbers are stored: add to the end, never renumber.
const (
	Within        Outcome = iota // admitted
	Over                         // refused
	Shadow                       // beyond a limit that refused nothing: by shadow mode, or as a quota beside one with room
	Degraded                     // no store answered
	Near                         // within, but close to the limit
	Outcomes      = int(Near) + 1
	WholeOutcomes = int(Near) // the first ones, which add up to all hits
)

var outcomeNames = [Outcomes]string{"within", "over", "shadow", "degraded", "near"}

// String returns the outcome's name in queries and metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// IsPart reports whether hits of the outcome are counted in another one as well: in the number of all hits, they are not
// counted again.
func (o Outcome) IsPart() bool { return o == Near }

// ParseOutcome reads an outcome's name, or a word that people have for Over.
func ParseOutcome(name string) (Outcome, error) {
	if name == "refused" || name == "denied" {
		return Over, nil
	}
	if o := slices.Index(outcomeNames[:], name); o >= 0 {
		return Outcome(o), nil
	}
	return 0, fmt.Errorf("%q is not an outcome: use one of %s", name, strings.Join(outcomeNames[:], ", "))
}

// OtherValue is the value of hits whose own value was not among the heaviest of its rule, or has no series.
const OtherValue = "__other__"

// ID names a series. Two IDs are the same series exactly if they are equal.
type ID struct {
	Domain  string
	Path    string // of the rule: escaped, see descriptors.Rule
	Outcome Outcome
	Value   string // where the rule asks for values of their own, else ""
}

// Compare orders series by domain, path, value and outcome.
func (id ID) Compare(other ID) int {
	return cmp.Or(strings.Compare(id.Domain, other.Domain), strings.Compare(id.Path, other.Path),
		strings.Compare(id.Value, other.Value), cmp.Compare(id.Outcome, other.Outcome))
}

// Partitions is how many parts all series fall into. It is fixed for the life of the data.
const Partitions = 256

// Partition is one of them. What it holds is kept together, so that a batch is applied whole or not at all.
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

// MaxTotal is how many hits a series can hold in its life. Stores refuse what goes beyond, and report how much.
const MaxTotal = 1_000_000_000_000_000_000 - 1

// Increment is hits of one series in one bucket: a minute, or, for imported hits, a bucket of a coarser tier.
type Increment struct {
	ID     ID
	Minute int64  // since 1970; the bucket is the one that holds it
	Hits   uint64 // 1 to MaxTotal
	Tier   Tier   // of the bucket
	Peak   uint64 // the hits of its largest minute; unused if Tier is Minutes
}

// MaxBatch is how many increments a batch may hold: about a quarter of a millisecond of a Redis server.
const MaxBatch = 200

// Batch is what a writer sends to one partition. Once sent it is immutable, and sent again as it is until the store
// has answered. Stores rely on what is said of its fields.
type Batch struct {
	Writer string // random for each start of a process; not empty
	Seq    uint64 // 1 for the writer's first batch in this partition; 0 only asks for the position
	After  uint64 // the batch that this one follows: Seq-1, or less once batches between have been given up as lost
	// Increments are of series of this partition, at most MaxBatch, no bucket of a series twice.
	Increments []Increment
}

// maxMinute is in the year 9999.
const maxMinute = 253402300799 / Minute

// ApplyStatus is what became of a batch.
type ApplyStatus uint8

const (
	Applied   ApplyStatus = iota // counted now
	Duplicate                    // counted before; nothing was done
	Gap                          // the store holds less of this writer than the batch follows; nothing was done
)

// Status returns what is to become of the batch in a partition that holds this writer's batches up to last.
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
	Last   uint64 // the last batch of this writer that the partition holds, 0 for none
	// Refused is the hits of batch Last that were not counted, as their increments would have brought a series above
	// MaxTotal. It is the same whenever it is asked, so that a lost reply hides none.
	Refused uint64
}

// Store keeps series. All its methods may be called by any number of goroutines and processes.
type Store interface {
	// Apply counts a batch in its partition once, however often it is sent: all of it, or nothing. Where it finds that a
	// series holds more points than Keep.MaxPoints, it rolls that series early. An error means that the batch may or
	// may not have been counted.
	Apply(ctx context.Context, p Partition, b Batch) (ApplyResult, error)
	// Downsample is the downsampling job: it moves what is old enough to coarser tiers, and drops what is older than the
	// retention. The moment is the store's own clock, if that is earlier. It may be killed anywhere, run twice and run in
	// parallel.
	Downsample(ctx context.Context, now time.Time) (DownsampleResult, error)
	// Query calls yield with each series that matches, in no particular order, each a snapshot; its points are those
	// that overlap the query's range. A series that is damaged comes with its Err, and the others still come. It ends
	// with the first error of yield, and with any other trouble: a store that does not answer, a file whose pages are
	// damaged.
	Query(ctx context.Context, q Query, yield func(Series) error) error
	// WaitReplicated returns nil once no failover can lose acknowledged batches. If ctx ends first, its error names the
	// servers whose failover still may.
	WaitReplicated(ctx context.Context) error
	// Close closes the store. It must be the last call.
	Close() error
}

// DownsampleResult is what a run of the job did.
type DownsampleResult struct {
	Partitions int    // looked at, of Partitions
	Series     uint64 // moved or dropped from
	Chunks     uint64 // moved to the next tier; of days: dropped from
	Points     uint64 // in them
	Expired    uint64 // hits dropped with the retention
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

// IDs returns the only series that the query can be about, each once; nil if it does not name them.
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

// Partitions returns those that may hold a series that the query asks for.
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

// Series is a snapshot of a series: at every moment the sums of all its points, from the beginning of time to its end,
// and Expired make Lifetime.
type Series struct {
	ID       ID
	Lifetime uint64 // all hits that were ever counted
	Expired  uint64 // of these, dropped with the retention
	Points   []Point
	Fine     bool // it holds points finer than a day, in the range or not: its last hits are not old
	// Err is the first reason why a part of the series cannot be read, with the key at fault; nil if there is none. The
	// other fields hold what could be read.
	Err error
	// Unnamed is set if the ID could not be read either: it is empty, and Err names the key. It may stand for several
	// series, and for one that the query is not about.
	Unnamed bool
}

// Point is the hits of a bucket. The points of a series do not overlap, and come oldest first; empty ones are left out.
type Point struct {
	Start int64 // Unix seconds
	Tier  Tier
	Sum   uint64
	Peak  uint64 // the largest minute in it that was known when it was downsampled; of a minute, Sum
}

// End returns where the bucket ends, in Unix seconds.
func (p Point) End() int64 { return p.Start + p.Tier.Width() }
