package rlqs

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"golang.org/x/sync/errgroup"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// budget is what a rule allows under one key, and who shares it.
type budget struct {
	quota   limit.Quota
	buckets []*bucket          // of Envoys here, and of those that have left, until their assignments end
	peers   map[string]replica // the others, by their names
	told    uint64             // how often they were told of these buckets
}

// replica is what another weir said last, and since when it has said nothing new, by the clock of this one.
type replica struct {
	said  string
	since time.Time
}

// message is what a replica says of a budget. Its number is another each time, so that all know that the replica lives.
type message struct {
	Number, Reserved uint64
	Demands          []Demand
}

// bucket is one of an Envoy's.
type bucket struct {
	name               string // on its stream
	stream             *stream
	gone               bool // the stream has ended
	quota              limit.Quota
	budget             *budget // nil where nothing is limited
	demand             uint64  // hits a horizon, with a fifth to grow by
	reports            uint64
	reportedAt, busyAt time.Time // of the last report, and of the last that told of hits
	allowed, denied    uint64

	kind      string // what the Envoy was told last
	share     uint64
	at, until time.Time
}

// Kinds of assignments, as the API names them. By none Envoy goes by its own configuration.
const none, allowAll, denyAll, share = "", "allow_all", "deny_all", "share"

// id returns Envoy's name of the bucket.
func (b *bucket) id() *quota.BucketId {
	id := &quota.BucketId{Bucket: make(map[string]string, len(b.quota.Descriptor))}
	for _, e := range b.quota.Descriptor {
		id.Bucket[e.Key] = e.Value
	}
	return id
}

// assign tells Envoy what it gets, unless it knows: a share that differs by less than a tenth is as good. An assignment is
// renewed at half its time.
func (b *bucket) assign(k string, hits uint64, ttl time.Duration, now time.Time) {
	s := strategy(hits)
	switch {
	case k == allowAll:
		s = blanket(envoytype.RateLimitStrategy_ALLOW_ALL)
	case k == share && hits == 0:
		k = denyAll
	}
	apart := max(hits, b.share) - min(hits, b.share)
	if k == none || k == b.kind && apart <= b.share/10 && now.Sub(b.at) < ttl/2 {
		return
	}
	b.kind, b.share, b.at, b.until = k, hits, now, now.Add(ttl)
	b.stream.send(b.name, assign(b.id(), s, ttl))
}

// assignUnlimited lets a bucket without limits pass. A domain whose files are broken gets no answer, as in RLS.
func (b *bucket) assignUnlimited(ttl time.Duration, now time.Time) {
	if b.quota.Found != descriptors.BrokenDomain {
		b.assign(allowAll, 0, ttl, now)
	}
}

// silent reports whether the bucket's Envoy has left, or has not reported it for long.
func (b *bucket) silent(now time.Time) bool { return b.gone || now.Sub(b.reportedAt) > silentTime }

// takeOver ends what is reserved for a host that is back with another stream, and returns its share.
func (b *budget) takeOver(host string) (hits uint64) {
	i := slices.IndexFunc(b.buckets, func(one *bucket) bool { return one.gone && one.stream.host == host })
	if i >= 0 {
		hits, b.buckets = b.buckets[i].share, slices.Delete(b.buckets, i, i+1)
	}
	return hits
}

// balance shares the budgets that have had reports, or those alone that must not wait.
func (s *Service) balance(ctx context.Context, urgent bool) {
	s.mu.Lock()
	var all []*budget
	var quotas []limit.Quota
	var limits [][]descriptors.Limit
	for b, now := range s.dirty {
		if urgent && !now {
			continue
		}
		delete(s.dirty, b)
		if len(b.buckets) == 0 {
			delete(s.budgets, b.quota.Key)
		}
		all, quotas, limits = append(all, b), append(quotas, b.quota), append(limits, spent(b.quota.Rule.Limits))
	}
	s.mu.Unlock()
	parts := make([]uint64, len(all)) // how many replicas have a part each, as they do not know each other's demands
	var asking errgroup.Group
	asking.SetLimit(16)
	replicas := s.options.Replicas()
	for i, b := range all {
		asking.Go(func() error {
			parts[i] = s.exchange(ctx, b, quotas[i].Key, replicas)
			return nil
		})
	}
	rooms := s.limiter.Room(ctx, quotas, limits)
	_ = asking.Wait() // none returns an error
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range all {
		if rooms[i].Source == backend.FromLocal {
			parts[i] = uint64(replicas)
		}
		b.assign(&rooms[i], parts[i], s.name, s.options.TTL, time.Now())
	}
}

// exchange tells the other replicas what is demanded here, and learns what is demanded there. It returns how many have a
// part each of the budget: 1 if all is known.
func (s *Service) exchange(ctx context.Context, b *budget, key string, replicas int) uint64 {
	if replicas <= 1 || s.options.Exchange == nil {
		return uint64(max(1, replicas))
	}
	now, says, gone := time.Now(), "", []string(nil)
	s.mu.Lock()
	if buckets, reserved := b.speaking(now); len(b.buckets) > 0 {
		b.told++
		said, _ := json.Marshal(message{b.told, reserved, demandsOf(buckets)}) // of numbers
		says = string(said)
	}
	for name, p := range b.peers {
		if now.Sub(p.since) >= 4*silentTime {
			gone = append(gone, name)
		}
	}
	s.mu.Unlock()
	said, err := s.options.Exchange.Exchange(ctx, key, s.name, says, gone)
	if err != nil {
		return uint64(replicas)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(said, s.name)
	maps.DeleteFunc(b.peers, func(name string, _ replica) bool { return said[name] == "" })
	for name, text := range said {
		if b.peers[name].said != text {
			b.peers[name] = replica{text, now}
		}
	}
	return 1
}

// assign assigns to each bucket its share of what remains, or of one of so many parts of that.
func (b *budget) assign(room *backend.Decision, parts uint64, name string, ttl time.Duration, now time.Time) {
	all := share
	switch {
	case room.Err != nil:
		all = none // assignments end, and Envoy decides
	case room.Source == backend.FromPolicy && room.Allowed:
		all = allowAll
	case room.Source == backend.FromPolicy:
		all = denyAll
	}
	remaining, unreported, limits := room.Remaining, uint64(0), slices.Clone(b.quota.Rule.Limits)
	if room.Source != backend.FromLocal { // which is a part already
		remaining /= parts
	}
	for i := range limits {
		limits[i].Requests = (limits[i].Requests + parts - 1) / parts
	}
	for _, one := range b.buckets {
		unreported += mulDiv(min(one.share, one.demand), uint64(min(now.Sub(one.reportedAt), ttl)), uint64(horizon))
	}
	buckets, reserved := b.speaking(now)
	others, own, reservedThere := b.peerDemands(name, now)
	capacity := Capacity(limits, remaining, unreported)
	capacity -= min(capacity, reserved+reservedThere)
	for _, one := range buckets {
		if one.reports <= 1 { // its demand is not known: a fair share
			one.demand = max(one.demand, capacity/uint64(len(buckets)+len(others)))
		}
	}
	shares := Shares(capacity, slices.Insert(others, own, demandsOf(buckets)...))[own:]
	for i, one := range buckets {
		if all == share {
			one.assign(share, shares[i], ttl, now)
		} else {
			one.assign(all, 0, ttl, now)
		}
	}
}

// speaking returns the buckets that are not silent, and the shares that are reserved for the others.
func (b *budget) speaking(now time.Time) (all []*bucket, reserved uint64) {
	for _, one := range b.buckets {
		if !one.silent(now) {
			all = append(all, one)
		} else if now.Before(one.until) {
			reserved += one.share
		}
	}
	return all, reserved
}

func demandsOf(buckets []*bucket) (all []Demand) {
	for _, one := range buckets {
		all = append(all, Demand{one.demand, one.stream.weight})
	}
	return all
}

// peerDemands returns the demands at other replicas, in the order of their names, where those of this one belong, and what
// is reserved there.
func (b *budget) peerDemands(name string, now time.Time) (all []Demand, own int, reserved uint64) {
	for _, of := range slices.Sorted(maps.Keys(b.peers)) {
		var m message
		p := b.peers[of]
		if now.Sub(p.since) >= silentTime || json.Unmarshal([]byte(p.said), &m) != nil ||
			slices.ContainsFunc(m.Demands, func(d Demand) bool { return d.Weight < 1 || d.Weight > maxWeight }) {
			continue
		}
		all, reserved = append(all, m.Demands...), reserved+min(m.Reserved, maxHits)
		if of < name {
			own = len(all)
		}
	}
	return all, own, reserved
}
