// Package rlqs serves Envoy's RateLimitQuotaService: Envoys report the hits that they admit, and get shares of the
// rules' budgets, so that no request waits for weir. QUOTAS.md has the guarantees for operators. Begin to read at
// [Service.StreamRateLimitQuotas].
package rlqs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// Options bound a service, and connect it with other replicas.
type Options struct {
	TTL                                      time.Duration // of an assignment, in whole seconds: at least two report intervals
	MaxStreams, MaxBuckets, MaxStreamBuckets int           // MaxBuckets of all streams, MaxStreamBuckets of one
	Replicas                                 func() int    // number of replicas that share the counters, at least 1
	Exchange                                 Exchange      // nil: each replica gets an equal part of the remaining hits
	Log                                      *slog.Logger
}

// Exchange exchanges demands between replicas of weir.
type Exchange interface {
	// Exchange stores the message of the replica name about a key, or removes it if message is "". It returns the recent
	// messages of the other replicas by name.
	Exchange(ctx context.Context, key, name, message string) (others map[string]string, err error)
}

// Service serves quotas. Its methods may be called by any number of goroutines.
type Service struct {
	quota.UnimplementedRateLimitQuotaServiceServer
	limiter *limit.Limiter
	options Options
	name    string // of this replica
	wake    chan struct{}

	mu      sync.Mutex // guards the fields below, and all streams, buckets and budgets
	streams map[*stream]struct{}
	budgets map[string]*budget // by the key of their counters
	dirty   map[*budget]bool   // budgets to be balanced; true: at once, not at the next tick
	totals  Totals
	logged  map[string]time.Time // when a refusal was last logged, by bound
}

// New makes a service that charges by a limiter. It makes assignments while Run runs.
func New(l *limit.Limiter, o Options) *Service {
	return &Service{limiter: l, options: o, name: rand.Text(), wake: make(chan struct{}, 1), streams: make(map[*stream]struct{}),
		budgets: make(map[string]*budget), dirty: make(map[*budget]bool), logged: make(map[string]time.Time),
		totals: Totals{Refused: map[string]uint64{"streams": 0, "buckets": 0, "stream_buckets": 0, "bucket_id": 0, "message_bytes": 0}}}
}

// Register adds the service to a server.
func (s *Service) Register(to grpc.ServiceRegistrar) {
	quota.RegisterRateLimitQuotaServiceServer(to, s)
}

const (
	// balancePause is how often budgets with new reports are balanced.
	balancePause = time.Second
	// idleTime is how long a bucket may have no request before weir tells Envoy to drop it, because Envoy does not do so
	// by itself; crowdedIdleTime is the same for a stream with more than half of the buckets that it may have.
	idleTime, crowdedIdleTime = time.Minute, 2 * reportInterval
	// maxUrgentBuckets is the most buckets in a budget that is balanced at once for a new bucket.
	maxUrgentBuckets = 1000
	// silentTime is how long an Envoy may not report a bucket before it gets no new assignment for it.
	silentTime = 3 * reportInterval
)

// Run balances budgets every balancePause until ctx ends, and at once if an Envoy has a new bucket.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(balancePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.sweep(now)
			s.balance(ctx, false)
		case <-s.wake:
			s.balance(ctx, true)
		}
	}
}

// sweep updates buckets after a change of the configuration, and removes expired reservations.
func (s *Service) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		for _, b := range st.buckets {
			s.refresh(b, now)
		}
	}
	for _, bg := range s.budgets {
		n := len(bg.disconnected)
		bg.disconnected = slices.DeleteFunc(bg.disconnected, func(b *bucket) bool { return !now.Before(b.validUntil) })
		if ended := n - len(bg.disconnected); ended > 0 {
			s.totals.Buckets -= ended
			s.schedule(bg, false)
		}
	}
}

// refresh looks up the bucket's rule again after a change of the configuration, and assigns ALLOW_ALL to a bucket
// without limits. A bucket of a domain with broken files gets no assignment, as such a request gets no verdict in RLS.
func (s *Service) refresh(b *bucket, now time.Time) {
	if !s.limiter.Current(&b.quota) {
		s.leave(b)
		if b.quota, _ = s.limiter.Quota(b.quota.Domain, b.quota.Descriptor); b.quota.Enforced && !b.detached {
			s.join(b)
		}
	}
	if b.budget == nil && !b.detached && b.quota.Kind != descriptors.BrokenDomain {
		b.assign(kindAllowAll, 0, s.options.TTL, now)
	}
}

// join adds a bucket to the budget of its rule. The bucket takes over the share of a disconnected one of the same host.
func (s *Service) join(b *bucket) {
	bg := s.budgets[b.quota.Key]
	if bg == nil {
		bg = new(budget)
		s.budgets[b.quota.Key] = bg
	}
	bg.quota = b.quota
	if i := slices.IndexFunc(bg.disconnected, func(one *bucket) bool { return one.stream.host == b.stream.host }); i >= 0 {
		b.demand = max(b.demand, bg.disconnected[i].share)
		bg.disconnected = slices.Delete(bg.disconnected, i, i+1)
		s.totals.Buckets--
	}
	bg.add(b)
	s.schedule(bg, len(bg.buckets) <= maxUrgentBuckets)
	wake(s.wake)
}

// leave removes a bucket from its budget.
func (s *Service) leave(b *bucket) {
	if bg := b.budget; bg != nil {
		bg.remove(b)
		s.schedule(bg, false)
	}
}

// schedule schedules balancing a budget, at once or at the next interval.
func (s *Service) schedule(b *budget, urgent bool) { s.dirty[b] = s.dirty[b] || urgent }

// abandon tells Envoy to drop a bucket, and drops it here.
func (s *Service) abandon(b *bucket) {
	s.leave(b)
	b.kind = kindAbandoned
	b.stream.schedule(b)
	s.totals.Abandoned++
	if !b.detached {
		b.detached = true
		delete(b.stream.buckets, b.name)
		s.totals.Buckets--
	}
}

// balance balances the scheduled budgets, or only those scheduled at once.
func (s *Service) balance(ctx context.Context, urgent bool) {
	s.mu.Lock()
	var all []*budget
	var remaining []limit.Remaining
	for b, isUrgent := range s.dirty {
		if urgent && !isUrgent {
			continue
		}
		delete(s.dirty, b)
		if len(b.buckets)+len(b.disconnected) == 0 {
			delete(s.budgets, b.quota.Key)
		}
		all, remaining = append(all, b), append(remaining, limit.Remaining{Quota: b.quota, Limits: assignable(b.quota.Rule.Limits)})
	}
	s.mu.Unlock()
	replicas, others := s.options.Replicas(), make([]map[string]message, len(all))
	var exchanges errgroup.Group
	exchanges.SetLimit(16)
	for i, b := range all {
		exchanges.Go(func() error {
			others[i] = s.exchange(ctx, b, remaining[i].Key, replicas)
			return nil
		})
	}
	s.limiter.Remaining(ctx, remaining)
	_ = exchanges.Wait() // none returns an error
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range all {
		parts := uint64(1)
		if others[i] == nil {
			parts = uint64(replicas)
		}
		if remaining[i].Source == backend.FromLocal { // the failure policy local counts only this replica's part
			remaining[i].Remaining *= uint64(replicas)
		}
		b.assign(&remaining[i], parts, s.name, others[i], s.options.TTL, time.Now())
	}
}

// exchange sends this replica's demands to the others, and returns their messages by name, or nil if they are unknown.
// It skips messages that it cannot decode.
func (s *Service) exchange(ctx context.Context, b *budget, key string, replicas int) map[string]message {
	others := make(map[string]message)
	if replicas == 1 {
		return others
	} else if s.options.Exchange == nil {
		return nil
	}
	s.mu.Lock()
	own, _ := b.message(time.Now())
	encoded, _ := json.Marshal(own) // numbers always encode
	if len(b.buckets)+len(b.disconnected) == 0 {
		encoded = nil
	}
	s.mu.Unlock()
	received, err := s.options.Exchange.Exchange(ctx, key, s.name, string(encoded))
	if err != nil {
		return nil
	}
	for name, text := range received {
		var m message
		invalid := func(d Demand) bool { return d.Weight < 1 || d.Weight > maxWeight }
		if json.Unmarshal([]byte(text), &m) == nil && !slices.ContainsFunc(m.Demands, invalid) {
			others[name] = m
		}
	}
	return others
}

// refuse counts a refusal by a bound, and logs it at most once a minute.
func (s *Service) refuse(bound, peer, remedy string) {
	s.totals.Refused[bound]++
	if now := time.Now(); now.Sub(s.logged[bound]) >= time.Minute {
		s.logged[bound] = now
		s.options.Log.Warn("quota refused", "bound", bound, "peer", peer, "remedy", remedy, "counted_in", "weir_quota_refused_total")
	}
}

// Totals are counts since the start, except Streams and Buckets, which are current.
type Totals struct {
	Streams, Buckets int
	Reports          uint64            // of one bucket each
	Allowed, Denied  uint64            // reported hits
	Over             uint64            // part of Allowed: beyond what was assigned
	Abandoned        uint64            // buckets
	Refused          map[string]uint64 // by bound
}

// Totals returns the totals.
func (s *Service) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.totals
	t.Streams, t.Refused = len(s.streams), maps.Clone(t.Refused)
	return t
}

// Assigned returns the sum of all Envoys' shares, in hits a second.
func (s *Service) Assigned() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits := uint64(0)
	for _, bg := range s.budgets {
		for _, b := range slices.Concat(bg.buckets, bg.disconnected) {
			hits += b.share
		}
	}
	return perSecond(hits)
}

func perSecond(hits uint64) float64 { return float64(hits) / horizon.Seconds() }

// Bucket describes a bucket of one Envoy in the API.
type Bucket struct {
	Domain     string  `json:"domain"`
	Path       string  `json:"path"` // of its rule
	Descriptor string  `json:"descriptor,omitempty"`
	Envoy      string  `json:"envoy"`      // host:port
	Assignment string  `json:"assignment"` // share, allow_all, deny_all, or none
	Demand     float64 `json:"demand"`     // hits a second, plus a fifth to grow
	Share      float64 `json:"share"`      // assigned hits a second
	Ends       float64 `json:"ends"`       // seconds until the assignment ends
	Reported   float64 `json:"reported"`   // seconds since the last report
	Allowed    uint64  `json:"allowed"`    // hits since the stream began
	Denied     uint64  `json:"denied"`
}

// Buckets returns the buckets of a domain, or of all if it is "", highest demand first, and the number of streams.
func (s *Service) Buckets(domain string, now time.Time) (all []Bucket, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = []Bucket{}
	for st := range s.streams {
		for _, b := range st.buckets {
			if domain == "" || domain == b.quota.Domain {
				all = append(all, Bucket{b.quota.Domain, b.quota.Path(), b.quota.Descriptor.String(), st.peer, cmp.Or(b.kind, "none"),
					perSecond(b.demand), perSecond(b.share), max(0, b.validUntil.Sub(now).Seconds()),
					now.Sub(b.reportedAt).Seconds(), b.allowed, b.denied})
			}
		}
	}
	slices.SortFunc(all, func(a, b Bucket) int {
		return cmp.Or(cmp.Compare(b.Demand, a.Demand), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Envoy, b.Envoy))
	})
	return all, len(s.streams)
}
