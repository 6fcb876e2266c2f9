package rlqs

import (
	"maps"
	"slices"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/limit"
)

// budget is what a rule allows under one key, with the buckets that share it. Service.mu guards it.
type budget struct {
	quota        limit.Quota
	buckets      []*bucket // of connected Envoys
	disconnected []*bucket // of disconnected Envoys, until their assignments end
}

func (b *budget) add(one *bucket) {
	one.budget, one.index = b, len(b.buckets)
	b.buckets = append(b.buckets, one)
}

// remove removes a bucket of a connected Envoy. The last bucket takes its place.
func (b *budget) remove(one *bucket) {
	n := len(b.buckets) - 1
	b.buckets[one.index], b.buckets[n].index = b.buckets[n], one.index
	b.buckets, one.budget = b.buckets[:n], nil
}

// message is what a replica tells others about a budget.
type message struct {
	Reserved uint64 // hits for Envoys that do not report
	Demands  []Demand
}

// message returns the message to other replicas, and the buckets whose demands it has: those of connected Envoys that
// reported within silentTime.
func (b *budget) message(now time.Time) (m message, reporting []*bucket) {
	for _, one := range slices.Concat(b.buckets, b.disconnected) {
		if !one.detached && now.Sub(one.reportedAt) <= silentTime {
			m.Demands, reporting = append(m.Demands, Demand{one.demand, one.stream.weight}), append(reporting, one)
		} else if now.Before(one.until) {
			m.Reserved += one.share
		}
	}
	return m, reporting
}

// assign assigns each bucket its share of what remains, or of one of parts equal parts of it. Replicas sort by name,
// so that all compute the same shares.
func (b *budget) assign(remaining *limit.Remaining, parts uint64, own string, others map[string]message, ttl time.Duration, now time.Time) {
	unreported := uint64(0)
	for _, one := range slices.Concat(b.buckets, b.disconnected) {
		unreported += mulDiv(min(one.share, one.demand), uint64(min(now.Sub(one.reportedAt), ttl)), uint64(horizon))
	}
	here, buckets := b.message(now)
	capacity := Capacity(b.quota.Rule.Limits, remaining.Remaining, unreported*parts) / parts
	capacity -= min(capacity, here.Reserved)
	var before, after []Demand
	for _, name := range slices.Sorted(maps.Keys(others)) {
		capacity -= min(capacity, others[name].Reserved)
		if name < own {
			before = append(before, others[name].Demands...)
		} else {
			after = append(after, others[name].Demands...)
		}
	}
	demands, first := slices.Concat(before, here.Demands, after), len(before)
	for i, one := range buckets {
		if one.reports <= 1 { // its demand is unknown: at least a fair share
			one.demand = max(one.demand, capacity/uint64(len(demands)))
			demands[first+i].Hits = one.demand
		}
	}
	kind, shares := kindOf(&remaining.Decision), Shares(capacity, demands)[first:]
	for i, one := range buckets {
		one.assign(kind, shares[i], ttl, now)
	}
}

// kindOf returns the kind of assignment: shares, or what the failure policy says.
func kindOf(d *backend.Decision) string {
	switch {
	case d.Err != nil:
		return none // assignments expire, and Envoy decides
	case d.Source != backend.FromPolicy:
		return share
	case d.Allowed:
		return allowAll
	}
	return denyAll
}

// bucket is a bucket of one Envoy. Service.mu guards it.
type bucket struct {
	name               string          // key in stream.buckets
	id                 *quota.BucketId // the same, in Envoy's form
	stream             *stream
	detached           bool // its stream has ended, or the stream has dropped it
	quota              limit.Quota
	budget             *budget // nil if nothing is limited
	index              int     // in budget.buckets
	demand             uint64  // hits per horizon, plus a fifth to grow
	reports            uint64
	reportedAt, busyAt time.Time // of the last report, and of the last with hits
	allowed, denied    uint64

	kind      string // of the last assignment
	share     uint64 // hits per horizon
	at, until time.Time
}

// Kinds of assignments. With none, Envoy follows its own configuration.
const none, allowAll, denyAll, share, abandoned = "", "allow_all", "deny_all", "share", "abandoned"

// assign sends Envoy an assignment unless it has the same: a share that differs by less than a tenth is the same.
// Assignments are renewed at half their time to live.
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
	b.stream.schedule(b)
}
