package hits

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
	"github.com/weirproxy/weir/server/hits/heavy"
)

// The ranking covers the current period and the one before: a half to a whole minute. 16 shards of at least 64 keys in
// two rankings take 1 MB, or 3 MB with the longest descriptors.
const (
	topPeriod     = 30 // seconds
	shardCount    = 16
	keysPerShard  = 64
	maxDescriptor = 512 // bytes of a descriptor; a longer one is cut
)

// topKeys has the keys with the most hits in this process. The highest bits of a key choose its shard, which has its own lock.
type topKeys [shardCount]topShard

// topShard has the heaviest keys of a shard. A denied key may be in both rankings.
type topShard struct {
	mu       sync.Mutex
	period   int64 // the current one, in units of topPeriod since 1970
	rankings [2]ranking
}

// ranking has the top keys by all hits, or by hits over a limit.
type ranking struct {
	heavy   *heavy.Sketch[rankedKey] // nil before the first hit
	missing uint64                   // by how much a key's hits of the previous period may be too low
}

const byHits, byOverLimit = 0, 1

// rankedKey is a key in a ranking, with its hits since it entered.
type rankedKey struct {
	rule       byrule.Name
	descriptor []byte
	shared     bool
	limit      descriptors.Limit // the strictest, or the one that denied last
	previous   counts
	current    counts
}

// Key is the hash of a check's key.
type Key uint64

// Key returns the hash of a check's key. Its seed is the recorder's.
func (r *Recorder) Key(key []byte) Key { return Key(maphash.Bytes(r.seed, key)) }

// count counts hits of a key.
func (t *topKeys) count(rule *byrule.Name, e *Event, n *counts) {
	shard := &t[e.Key>>60]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.advance(e.At.Unix() / topPeriod)
	shard.rankings[byHits].count(rule, e, n, n.sum())
	shard.rankings[byOverLimit].count(rule, e, n, n.overLimit())
}

func (r *ranking) count(rule *byrule.Name, e *Event, n *counts, weight uint64) {
	if weight == 0 {
		return
	}
	if r.heavy == nil {
		r.heavy = heavy.New[rankedKey](keysPerShard)
	}
	key, fresh := r.heavy.Add(uint64(e.Key), weight)
	if fresh {
		*key = rankedKey{rule: *rule, descriptor: key.descriptor[:0]}
		key.describe(e)
	}
	if e.Decision.Err == nil && len(e.Check.Limits) > 0 && (fresh || n.overLimit() > 0) {
		key.limit = e.Check.Limits[e.Decision.Strictest]
	}
	for o := range n {
		key.current[o] += n[o]
	}
}

// describe sets the descriptor. Values that are counted together by a pattern are shown as the pattern.
func (k *rankedKey) describe(e *Event) {
	d := e.Descriptor
	for i := range d {
		if pattern := e.Rule.SharedPattern(i); pattern != "" {
			if !k.shared {
				k.shared, d = true, slices.Clone(d)
			}
			d[i].Value = pattern
		}
	}
	k.descriptor = d.AppendShort(k.descriptor, maxDescriptor)
}

// advance makes a period the current one. A request may be one period late: then nothing changes.
func (s *topShard) advance(period int64) {
	if period == s.period || period == s.period-1 {
		return
	}
	for i := range s.rankings {
		r := &s.rankings[i]
		if r.heavy == nil {
			continue
		}
		if period != s.period+1 { // a gap, or the clock stepped back
			r.heavy.Reset()
		}
		r.missing = r.heavy.Missing()
		r.heavy.Reweigh(func(h *heavy.Entry[rankedKey]) uint64 {
			h.Value.previous, h.Value.current = h.Value.current, counts{}
			if i == byOverLimit {
				return h.Value.previous.overLimit()
			}
			return h.Value.previous.sum()
		})
	}
	s.period = period
}

// TopKey is one of the keys with the most hits. Its hits are lower bounds.
type TopKey struct {
	Totals            // of the key; the path is descriptors.UnmatchedPath for overrides without a rule
	Descriptor string // cut to 512 bytes
	Shared     bool   // its descriptor has a pattern that stands for all matching values
	Limit      descriptors.Limit
}

// TopKeys are the keys with the most hits.
type TopKeys struct {
	Since time.Time
	// Missing is by how much the hits of a listed key may be too low, and the most hits that an unlisted key may have.
	// MissingOverLimit is the same for hits over a limit, refused or not.
	Missing, MissingOverLimit uint64
	Keys                      []TopKey // in no order
}

// TopKeys returns the keys with the most hits in this process since the beginning of the previous half minute: some
// hundreds of keys.
func (r *Recorder) TopKeys(at time.Time) TopKeys {
	period := at.Unix() / topPeriod
	top := TopKeys{Since: time.Unix((period-1)*topPeriod, 0)}
	for i := range r.top {
		s := &r.top[i]
		s.mu.Lock()
		s.advance(period)
		byHash := make(map[uint64]*TopKey)
		for by, missing := range [...]*uint64{byHits: &top.Missing, byOverLimit: &top.MissingOverLimit} {
			if r := &s.rankings[by]; r.heavy != nil {
				*missing = max(*missing, r.missing+r.heavy.Missing())
				r.addTo(byHash)
			}
		}
		s.mu.Unlock()
		for _, t := range byHash {
			top.Keys = append(top.Keys, *t)
		}
	}
	return top
}

// addTo adds the ranking's keys to byHash. For a key that is there already, it raises the hits to the ranking's.
func (r *ranking) addTo(byHash map[uint64]*TopKey) {
	for i := range r.heavy.Entries() {
		h := &r.heavy.Entries()[i]
		k := &h.Value
		t := byHash[h.Key]
		if t == nil {
			t = &TopKey{Totals: Totals{Domain: k.rule.Domain, Path: k.rule.Path}, Descriptor: string(k.descriptor), Shared: k.shared, Limit: k.limit}
			byHash[h.Key] = t
		}
		for o, n := range t.byOutcome() {
			*n = max(*n, k.previous[o]+k.current[o])
		}
	}
}
