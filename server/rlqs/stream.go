package rlqs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

const (
	// MaxMessage is the longest message of an Envoy, in bytes; a bucket takes some fifty.
	MaxMessage = 1 << 20
	// maxEntries and maxIDBytes bound a bucket's id.
	maxEntries, maxIDBytes = 16, 4096
	// maxReported is how many hits one report of a bucket counts with at most, as hits_addend in Envoy.
	maxReported = 1_000_000_000
	// drainTime is for how long a stream that is to end waits for the next reports, after which none are under way.
	drainTime = reportInterval + time.Second
	// maxActions is how many buckets one message assigns.
	maxActions = 1000
	// weightHeader is the gRPC metadata that says how much an Envoy weighs.
	weightHeader = "x-weir-weight"
)

// reports is a message of an Envoy, which the server's codec bounds.
type reports struct {
	*quota.RateLimitQuotaUsageReports
}

// MaxBytes bounds the message.
func (reports) MaxBytes() int { return MaxMessage }

// stream is that of one Envoy. Service.mu guards it.
type stream struct {
	peer, host string
	weight     uint64
	domain     string // of the first message
	buckets    map[string]*bucket
	unsent     map[string]*action // the last for each bucket
	wake       chan struct{}
}

// send leaves an action for a bucket to sendAll, in the place of an earlier one.
func (st *stream) send(bucket string, a *action) {
	st.unsent[bucket] = a
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// StreamRateLimitQuotas serves an Envoy. When the server drains, the stream ends behind its next reports, so that the Envoy
// goes elsewhere and none are lost.
func (s *Service) StreamRateLimitQuotas(gs grpc.BidiStreamingServer[quota.RateLimitQuotaUsageReports, quota.RateLimitQuotaResponse]) error {
	ctx := gs.Context()
	st, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer s.close(st)
	ended := make(chan struct{})
	defer close(ended)
	received, failed := make(chan *quota.RateLimitQuotaUsageReports), make(chan error, 1)
	go func() {
		for {
			m := reports{new(quota.RateLimitQuotaUsageReports)}
			if err := gs.RecvMsg(m); err != nil {
				failed <- err
				return
			}
			select {
			case received <- m.RateLimitQuotaUsageReports:
			case <-ended:
				return
			}
		}
	}()
	go s.sendAll(st, gs, ended)
	draining, end, last := ctx.Done(), (<-chan time.Time)(nil), error(nil)
	for err == nil {
		select {
		case m := <-received:
			err = cmp.Or(s.report(ctx, st, m), last)
		case err = <-failed:
		case <-draining:
			draining, end = nil, time.After(drainTime)
			last = status.Error(codes.Unavailable, "weir is about to end: open a stream to another one")
		case <-end:
			err = last
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// open makes a stream, if there is room for one.
func (s *Service) open(ctx context.Context) (*stream, error) {
	st := &stream{weight: 1, buckets: make(map[string]*bucket), unsent: make(map[string]*action),
		wake: make(chan struct{}, 1)}
	if p, ok := peer.FromContext(ctx); ok {
		st.peer = p.Addr.String()
		st.host, _, _ = net.SplitHostPort(st.peer)
	}
	for _, text := range metadata.ValueFromIncomingContext(ctx, weightHeader) {
		var err error
		if st.weight, err = strconv.ParseUint(text, 10, 64); err != nil || st.weight < 1 || st.weight > maxWeight {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %.20q is no weight: use a number from 1 to %d", weightHeader, text, maxWeight)
		}
	}
	if s.limiter.Config() == nil {
		return nil, status.Error(codes.Unavailable, limit.ErrNoConfig.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) >= s.options.MaxStreams {
		s.refuse("streams", st.peer, "raise RLQS_MAX_STREAMS, or add replicas")
		return nil, status.Errorf(codes.ResourceExhausted, "%d quota streams are open, and RLQS_MAX_STREAMS allows no more", len(s.streams))
	}
	s.streams[st] = struct{}{}
	return st, nil
}

func (s *Service) close(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range st.buckets {
		if b.gone = true; b.budget != nil {
			s.share(b.budget, false)
		}
	}
	s.totals.Buckets -= len(st.buckets)
	delete(s.streams, st)
}

// sendAll sends what is left for the stream until it has ended.
func (s *Service) sendAll(st *stream, to grpc.ServerStream, ended <-chan struct{}) {
	for more := false; ; {
		if !more {
			select {
			case <-ended:
				return
			case <-st.wake:
			}
		}
		m := new(quota.RateLimitQuotaResponse)
		s.mu.Lock()
		for id, a := range st.unsent {
			m.BucketAction = append(m.BucketAction, a)
			if delete(st.unsent, id); len(m.BucketAction) == maxActions {
				break
			}
		}
		more = len(st.unsent) > 0
		s.mu.Unlock()
		if len(m.BucketAction) > 0 && to.SendMsg(m) != nil {
			return // the stream ends
		}
	}
}

// report takes in a message: its hits are charged and recorded, and then its budgets are shared anew.
func (s *Service) report(ctx context.Context, st *stream, m *quota.RateLimitQuotaUsageReports) error {
	st.domain = cmp.Or(st.domain, m.Domain)
	switch {
	case st.domain == "":
		return status.Error(codes.InvalidArgument, limit.ErrNoDomain.Error())
	case m.Domain != "" && m.Domain != st.domain:
		return status.Errorf(codes.InvalidArgument, "the domain of a stream is that of its first message: %.100q, not %.100q", st.domain, m.Domain)
	}
	now, usages := time.Now(), make([]limit.Usage, 0, len(m.BucketQuotaUsages))
	s.mu.Lock()
	for _, u := range m.BucketQuotaUsages {
		set := readID(u.BucketId)
		if set == nil {
			s.refuse("bucket_id", st.peer, fmt.Sprintf("give a bucket 1 to %d entries, of %d bytes together", maxEntries, maxIDBytes))
			continue
		}
		usage := limit.Usage{Allowed: min(u.NumRequestsAllowed, maxReported), Denied: min(u.NumRequestsDenied, maxReported), At: now}
		if b := s.bucket(st, set, now); b != nil {
			s.take(b, &usage)
			usage.Quota = b.quota
		} else {
			usage.Quota, _ = s.limiter.Quota(st.domain, set)
		}
		usages = append(usages, usage)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balancePause)
	defer cancel()
	s.limiter.Report(ctx, usages)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range usages {
		if b := s.budgets[usages[i].Key]; b != nil {
			s.share(b, false)
		}
	}
	return nil
}

// readID returns a bucket's entries by their keys, nil if they are none.
func readID(id *quota.BucketId) (set descriptors.Descriptor) {
	size := 0
	for key, value := range id.GetBucket() {
		if size += len(key) + len(value); key == "" || size > maxIDBytes || len(set) == maxEntries {
			return nil
		}
		set = append(set, descriptors.Entry{Key: key, Value: value})
	}
	slices.SortFunc(set, func(a, b descriptors.Entry) int { return cmp.Compare(a.Key, b.Key) })
	return set
}

// bucket returns a bucket of a stream, a new one if there is room. What has none is charged, and gets no assignment.
func (s *Service) bucket(st *stream, set descriptors.Descriptor, now time.Time) *bucket {
	id := fmt.Sprintf("%q", set)
	switch {
	case st.buckets[id] != nil:
		return st.buckets[id]
	case len(st.buckets) >= s.options.MaxStreamBuckets:
		s.refuse("stream_buckets", st.peer, "make fewer buckets, or raise RLQS_MAX_STREAM_BUCKETS")
		return nil
	case s.totals.Buckets >= s.options.MaxBuckets:
		s.refuse("buckets", st.peer, "raise RLQS_MAX_BUCKETS, or add replicas")
		return nil
	}
	b := &bucket{name: id, stream: st, quota: limit.Quota{Domain: st.domain, Descriptor: set}, reportedAt: now, busyAt: now}
	st.buckets[id] = b
	s.totals.Buckets++
	s.join(b, now)
	return b
}

// take notes a report. The time since the last one is this process's: Envoy's has whole seconds, 0 at first.
func (s *Service) take(b *bucket, u *limit.Usage) {
	now, sum := u.At, u.Allowed+u.Denied
	if !s.limiter.Current(&b.quota) {
		s.leave(b)
		s.join(b, now)
	}
	elapsed := max(now.Sub(b.reportedAt), time.Second)
	demand := mulDiv(sum+sum/5, uint64(horizon), uint64(elapsed))
	if b.reports == 0 {
		demand = max(demand, b.demand) // of the stream before
	} else if (b.kind == share || b.kind == denyAll) && b.at.Before(b.reportedAt) {
		s.totals.Over += u.Allowed - min(u.Allowed, 1+mulDiv(b.share, uint64(elapsed+time.Second), uint64(horizon)))
	}
	b.demand = min(demand, maxHits)
	s.totals.Reports, s.totals.Allowed, s.totals.Denied = s.totals.Reports+1, s.totals.Allowed+u.Allowed, s.totals.Denied+u.Denied
	b.reports, b.reportedAt, b.allowed, b.denied = b.reports+1, now, b.allowed+u.Allowed, b.denied+u.Denied
	if sum > 0 {
		b.busyAt = now
	}
	if b.budget == nil {
		b.assignUnlimited(s.options.TTL, now)
	}
}
