package rlqs

import (
	"maps"
	"slices"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/limit"
)

// budget is what a rule allows under one key, and who shares it. Service.mu guards it.
type budget struct {
	quota   limit.Quota
	buckets []*bucket // of Envoys here
	left    []*bucket // of those that have left, until their assignments end
}

func (b *budget) add(one *bucket) {
	one.budget, one.place = b, len(b.buckets)
	b.buckets = append(b.buckets, one)
}

// remove takes a bucket of an Envoy here out, whose place the last one gets.
func (b *budget) remove(one *bucket) {
	n := len(b.buckets) - 1
	b.buckets[one.place], b.buckets[n].place = b.buckets[n], one.place
	b.buckets, one.budget = b.buckets[:n], nil
}

// message is what a replica says of a budget.
type message struct {
	Reserved uint64 // hits for Envoys that are silent
	Demands  []Demand
}

// message returns what there is to say, and the buckets whose demands it tells: of Envoys that have not left, and that have
// not been silent for long.
func (b *budget) message(now time.Time) (m message, speaking []*bucket) {
	for _, one := range slices.Concat(b.buckets, b.left) {
		if !one.gone && now.Sub(one.reportedAt) <= silentTime {
			m.Demands, speaking = append(m.Demands, Demand{one.demand, one.stream.weight}), append(speaking, one)
		} else if now.Before(one.until) {
			m.Reserved += one.share
		}
	}
	return m, speaking
}

// assign assigns to each bucket its share of what remains, or of one of so many parts of that. The replicas go by the order
// of their names, so that all do the same arithmetic.
func (b *budget) assign(room *limit.Room, parts uint64, own string, others map[string]message, ttl time.Duration, now time.Time) {
	unreported := uint64(0)
	for _, one := range slices.Concat(b.buckets, b.left) {
		unreported += mulDiv(min(one.share, one.demand), uint64(min(now.Sub(one.reportedAt), ttl)), uint64(horizon))
	}
	here, buckets := b.message(now)
	capacity := Capacity(b.quota.Rule.Limits, room.Remaining, unreported*parts) / parts
	capacity -= min(capacity, here.Reserved)
	var before, behind []Demand
	for _, name := range slices.Sorted(maps.Keys(others)) {
		capacity -= min(capacity, others[name].Reserved)
		if name < own {
			before = append(before, others[name].Demands...)
		} else {
			behind = append(behind, others[name].Demands...)
		}
	}
	demands, first := slices.Concat(before, here.Demands, behind), len(before)
	for i, one := range buckets {
		if one.reports <= 1 { // its demand is not known: a fair share
			one.demand = max(one.demand, capacity/uint64(len(demands)))
			demands[first+i].Hits = one.demand
		}
	}
	kind, shares := kindOf(&room.Decision), Shares(capacity, demands)[first:]
	for i, one := range buckets {
		one.assign(kind, shares[i], ttl, now)
	}
}

// kindOf returns what a rule assigns: shares, or what its failure policy lets pass.
func kindOf(d *backend.Decision) string {
	switch {
	case d.Err != nil:
		return none // assignments end, and Envoy decides
	case d.Source != backend.FromPolicy:
		return share
	case d.Allowed:
		return allowAll
	}
	return denyAll
}

// bucket is one of an Envoy's. Service.mu guards it.
type bucket struct {
	name               string          // on its stream
	id                 *quota.BucketId // likewise, to Envoy
	stream             *stream
	gone               bool // its stream has ended, or keeps it no more
	quota              limit.Quota
	budget             *budget // nil where nothing is limited
	place              int     // in the budget
	demand             uint64  // hits a horizon, with a fifth to grow by
	reports            uint64
	reportedAt, busyAt time.Time // of the last report, and of the last that told of hits
	allowed, denied    uint64

	kind      string // what the Envoy was told last
	share     uint64 // hits a horizon
	at, until time.Time
}

// Kinds of what an Envoy is told. By none it goes by its own configuration.
const none, allowAll, denyAll, share, abandoned = "", "allow_all", "deny_all", "share", "abandoned"

// assign has Envoy told what it gets, unless it knows: a share that differs by less than a tenth is as good. An assignment
// is renewed at half its time.
func (b *bucket) assign(kind string, hits uint64, ttl time.Duration, now time.Time) {
	if kind != share {
		hits = 0
	} else if hits == 0 {
		kind = denyAll
	}
	apart := max(hits, b.share) - min(hits, b.share)
	if kind == none || kind == b.kind && apart <= b.share/10 && now.Sub(b.at) < ttl/2 {
		return
	}
	b.kind, b.share, b.at, b.until = kind, hits, now, now.Add(ttl)
	b.stream.tell(b)
}
