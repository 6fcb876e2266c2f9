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
	// maxReported is how many hits of one report count at most, like Envoy's bound of hits_addend.
	maxReported = 1_000_000_000
	// drainTime is how long a draining stream waits for the next reports, so that none are lost.
	drainTime = reportInterval + time.Second
	// maxActions is how many buckets one message assigns.
	maxActions = 1000
	// weightHeader is the gRPC metadata that says how much an Envoy weighs.
	weightHeader = "x-weir-weight"
)

// reports is a message from an Envoy.
type reports struct {
	*quota.RateLimitQuotaUsageReports
	bytes int
}

// Fits records the size of a message, and reports whether the server's codec should decode it.
func (r *reports) Fits(bytes int) bool {
	r.bytes = bytes
	return bytes <= MaxMessage
}

// stream is the stream of one Envoy. Service.mu guards it.
type stream struct {
	peer, host string
	weight     uint64
	domain     string             // of the first message
	buckets    map[string]*bucket // by bucket.name
	unsent     map[string]*bucket // with an assignment to send
	wake       chan struct{}
}

// schedule schedules a bucket's assignment to be sent, in place of an earlier one.
func (st *stream) schedule(b *bucket) {
	st.unsent[b.name] = b
	wake(st.wake)
}

// wake wakes the receiver of a channel of size 1, now or when it next waits.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// StreamRateLimitQuotas serves an Envoy. When the server drains, the stream ends after its next reports, so that none
// are lost and the Envoy connects to another replica.
func (s *Service) StreamRateLimitQuotas(gs grpc.BidiStreamingServer[quota.RateLimitQuotaUsageReports, quota.RateLimitQuotaResponse]) error {
	ctx := gs.Context()
	st, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer s.close(st)
	received, ended := make(chan *reports), make(chan struct{})
	defer close(ended)
	var recvErr error // set when received is closed
	go func() {
		defer close(received)
		for {
			m := &reports{RateLimitQuotaUsageReports: new(quota.RateLimitQuotaUsageReports)}
			if recvErr = gs.RecvMsg(m); recvErr != nil {
				return
			}
			select {
			case received <- m:
			case <-ended:
				return
			}
		}
	}()
	draining, end := ctx.Done(), (<-chan time.Time)(nil)
	for err == nil {
		select {
		case m, open := <-received:
			if !open && errors.Is(recvErr, io.EOF) {
				return nil
			} else if !open {
				return recvErr
			}
			if err = s.report(ctx, st, m); err == nil && end != nil {
				err = errDrained
			}
		case <-st.wake:
			err = s.send(st, gs)
		case <-draining:
			draining, end = nil, time.After(drainTime)
		case <-end:
			err = errDrained
		}
	}
	return err
}

var errDrained = status.Error(codes.Unavailable, "weir is shutting down: open a stream to another replica")

// open registers a stream, unless there are too many.
func (s *Service) open(ctx context.Context) (*stream, error) {
	st := &stream{weight: 1, buckets: make(map[string]*bucket), unsent: make(map[string]*bucket), wake: make(chan struct{}, 1)}
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

// close removes a stream. Its assignments stay reserved until they end, because the Envoy still follows them.
func (s *Service) close(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range st.buckets {
		bg := b.budget
		s.leave(b)
		if b.detached = true; bg == nil {
			s.totals.Buckets--
		} else {
			bg.disconnected = append(bg.disconnected, b)
		}
	}
	delete(s.streams, st)
}

// send sends the scheduled assignments.
func (s *Service) send(st *stream, to grpc.ServerStream) error {
	m := new(quota.RateLimitQuotaResponse)
	s.mu.Lock()
	for name, b := range st.unsent {
		if len(m.BucketAction) == maxActions {
			wake(st.wake)
			break
		}
		m.BucketAction = append(m.BucketAction, b.action(s.options.TTL))
		delete(st.unsent, name)
	}
	s.mu.Unlock()
	if len(m.BucketAction) == 0 {
		return nil
	}
	return to.SendMsg(m)
}

// report charges and records the hits of a message, and schedules balancing its budgets.
func (s *Service) report(ctx context.Context, st *stream, m *reports) error {
	if m.bytes > MaxMessage {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse("message_bytes", st.peer, "make fewer buckets, or shorter ids: lower RLQS_MAX_STREAM_BUCKETS")
		return status.Errorf(codes.ResourceExhausted, "the message has %d bytes, and %d are the most: make fewer buckets, or shorter ids", m.bytes, MaxMessage)
	}
	st.domain = cmp.Or(st.domain, m.Domain)
	switch {
	case st.domain == "":
		return status.Error(codes.InvalidArgument, limit.ErrNoDomain.Error())
	case m.Domain != "" && m.Domain != st.domain:
		return status.Errorf(codes.InvalidArgument, "the domain of a stream is that of its first message: %.100q, not %.100q", st.domain, m.Domain)
	}
	now := time.Now()
	var buckets []*bucket
	var usages []limit.Usage
	s.mu.Lock()
	for _, u := range m.BucketQuotaUsages {
		set := readID(u.BucketId)
		if set == nil {
			s.refuse("bucket_id", st.peer, fmt.Sprintf("give a bucket 1 to %d entries, of %d bytes together", maxEntries, maxIDBytes))
			continue
		}
		b := s.bucket(st, u.BucketId, set, now)
		buckets, usages = append(buckets, b), append(usages, limit.Usage{Quota: b.quota,
			Allowed: min(u.NumRequestsAllowed, maxReported), Denied: min(u.NumRequestsDenied, maxReported), At: now})
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balancePause)
	defer cancel()
	s.limiter.Report(ctx, usages)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range buckets {
		s.record(b, &usages[i])
	}
	return nil
}

// readID returns a bucket's entries sorted by key, or nil if they are empty, invalid or too large.
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

// bucket returns a bucket of a stream, and makes it if needed. A bucket beyond the bounds gets no assignment; its hits
// are charged.
func (s *Service) bucket(st *stream, id *quota.BucketId, set descriptors.Descriptor, now time.Time) *bucket {
	name := fmt.Sprintf("%q", set)
	if b := st.buckets[name]; b != nil {
		s.refresh(b, now)
		return b
	}
	b := &bucket{id: id, name: name, stream: st, quota: limit.Quota{Domain: st.domain, Descriptor: set}, reportedAt: now, busyAt: now}
	switch {
	case len(st.buckets) >= s.options.MaxStreamBuckets:
		s.refuse("stream_buckets", st.peer, "make fewer buckets, or raise RLQS_MAX_STREAM_BUCKETS")
		b.detached = true
	case s.totals.Buckets >= s.options.MaxBuckets:
		s.refuse("buckets", st.peer, "raise RLQS_MAX_BUCKETS, or add replicas")
		b.detached = true
	default:
		st.buckets[name] = b
		s.totals.Buckets++
	}
	s.refresh(b, now)
	return b
}

// record records a report. It measures the time since the last one itself, because Envoy reports it in whole seconds,
// and as 0 at first.
func (s *Service) record(b *bucket, u *limit.Usage) {
	now, sum := u.At, u.Allowed+u.Denied
	elapsed := max(now.Sub(b.reportedAt), time.Second)
	demand := mulDiv(sum+sum/5, uint64(horizon), uint64(elapsed))
	if b.reports == 0 {
		demand = max(demand, b.demand) // at least the share that join took over
	} else if (b.kind == kindShare || b.kind == kindDenyAll) && b.assignedAt.Before(b.reportedAt) {
		s.totals.Over += u.Allowed - min(u.Allowed, 1+mulDiv(b.share, uint64(elapsed+time.Second), uint64(horizon)))
	}
	b.demand = min(demand, maxHits)
	s.totals.Reports, s.totals.Allowed, s.totals.Denied = s.totals.Reports+1, s.totals.Allowed+u.Allowed, s.totals.Denied+u.Denied
	b.reports, b.reportedAt, b.allowed, b.denied = b.reports+1, now, b.allowed+u.Allowed, b.denied+u.Denied
	idle := idleTime
	if len(b.stream.buckets) > s.options.MaxStreamBuckets/2 {
		idle = crowdedIdleTime
	}
	switch {
	case sum > 0:
		b.busyAt = now
	case b.detached || now.Sub(b.busyAt) >= idle:
		s.abandon(b)
		return
	}
	if b.budget != nil {
		s.schedule(b.budget, false)
	}
}
