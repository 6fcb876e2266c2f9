package rlqs

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
)

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestResetStreamsLeaveNothingBehind(t *testing.T) {
	w := start(t, fixture.Memory(t, nil), minute, 1, nil)
	w.options.MaxStreams, w.options.MaxBuckets = 2000, 5000
	honest := w.connect(t)
	serve := func(i int) {
		if err := honest.Send(usage("shop", map[string]string{"user": fmt.Sprint("honest", i%20)}, 1, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := honest.Recv(); i < 20 && err != nil {
			t.Fatal(err)
		}
	}
	serve(0)
	conn, err := grpc.NewClient("passthrough:///weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.line.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	garbage := []*quota.RateLimitQuotaUsageReports{
		{}, usage("shop", nil, 1<<63, 1<<63), usage("shop", map[string]string{"": "x"}, 0, 0),
		usage("shop", map[string]string{"user": strings.Repeat("x", maxIDBytes)}, 1, 0), usage("none", map[string]string{"user": "x"}, 1<<63, 1<<63),
		{Domain: "shop", BucketQuotaUsages: []*quota.RateLimitQuotaUsageReports_BucketQuotaUsage{nil, {}}},
	}
	var before int64
	goroutines := 0
	rounds := 60
	if testing.Short() {
		rounds = 5
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for round := range rounds {
		ctx, reset := context.WithCancel(t.Context())
		for i := range 1000 {
			stream, err := quota.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(garbage[i%len(garbage)])
		}
		serve(1 + round%19)
		if !testing.Short() { // with -short, as fast as possible
			<-second.C
		}
		reset()
		process.Eventually(t, "all streams but the honest one are gone", func() error {
			if got := w.Totals(); got.Streams != 1 {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
		if round == 1 {
			before, goroutines = heap(), runtime.NumGoroutine()
		}
	}
	process.Eventually(t, "no goroutine and no memory is left of streams that were reset", func() error {
		if more, n := heap()-before, runtime.NumGoroutine(); more > 4<<20 || n > goroutines+50 {
			return fmt.Errorf("%d bytes more, %d goroutines and %d before", more, n, goroutines)
		}
		return nil
	})
}

// A million users have a bucket each: the stream keeps MaxStreamBuckets of them, and the hits of all are counted.
func TestBucketsPerStreamAreBounded(t *testing.T) {
	users := 1_000_000
	if testing.Short() {
		users = 100_000
	}
	t.Run("limited", func(t *testing.T) {
		bucketForEachUser(t, "{domain: shop, descriptors: [{key: user, rate_limit: {requests_per_unit: 5, unit: hour}}]}", users)
	})
	t.Run("unlimited", func(t *testing.T) {
		bucketForEachUser(t, "{domain: shop, descriptors: [{key: user, rate_limit: {unlimited: true}}]}", 100_000)
	})
}

func bucketForEachUser(t *testing.T, rules string, users int) {
	t.Helper()
	w := start(t, fixture.Memory(t, nil), rules, 1, nil)
	w.options.MaxBuckets, w.options.MaxStreamBuckets = 20_000, 10_000
	honest, stream := w.connect(t), w.connect(t)
	if err := honest.Send(usage("shop", map[string]string{"user": "ann"}, 0, 0)); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	for from := 0; from < users; from += 1000 {
		m := usage("shop", map[string]string{"user": "0"}, 0, 0)
		for i := range 1000 {
			m.BucketQuotaUsages = append(m.BucketQuotaUsages, usage("", map[string]string{"user": fmt.Sprint(from + i)}, 1, 0).BucketQuotaUsages...)
		}
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	process.Eventually(t, "all are counted", func() error {
		w.recorder.Totals()
		sum := uint64(0)
		for _, one := range w.recorder.Totals() {
			sum += one.Within
		}
		if sum != uint64(users) {
			return fmt.Errorf("%d of %d", sum, users)
		}
		return nil
	})
	if m, err := honest.Recv(); err != nil || m.BucketAction[0].GetQuotaAssignmentAction() == nil {
		t.Errorf("an honest stream is told %v, %v", m, err)
	}
	got := w.Totals()
	if got.Buckets != 10_001 || got.Refused["stream_buckets"] == 0 {
		t.Errorf("%+v, want 10001 buckets and the bound named", got)
	}
	t.Logf("%d MB live with 10,000 of %d buckets", heap()>>20, users)
}

// Buckets of a pattern with share_threshold share one budget. The cost of one must not grow with their number.
func TestManyBucketsOfABudgetDelayNobody(t *testing.T) {
	const rules = "{domain: shop, descriptors: [{key: user, value: 'u*', share_threshold: true, rate_limit: {requests_per_unit: 100000, unit: minute}}]}"
	w := start(t, fixture.Memory(t, nil), rules, 1, nil)
	w.options.MaxBuckets, w.options.MaxStreamBuckets = 100_000, 10_000
	streams := 5
	if testing.Short() {
		streams = 1
	}
	for n := range streams {
		stream := w.connect(t)
		go func() {
			for {
				if _, err := stream.Recv(); err != nil {
					return
				}
			}
		}()
		for from := 0; from < 10_000; from += 1000 {
			m := usage("shop", map[string]string{"user": "u"}, 0, 0)
			for i := range 1000 {
				m.BucketQuotaUsages = append(m.BucketQuotaUsages, usage("", map[string]string{"user": fmt.Sprint("u", n, from+i)}, 1, 0).BucketQuotaUsages...)
			}
			if err := stream.Send(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	process.Eventually(t, "all have a bucket", func() error {
		if got := w.Totals(); got.Buckets != streams*10_000 {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	w.limiter.Apply(fixture.Config(t, rules))
	process.Eventually(t, "all are assigned their share of the new rule", func() error {
		all, _ := w.Buckets("", time.Now())
		for _, b := range all {
			if b.Assignment == "none" {
				return fmt.Errorf("%+v", b)
			}
		}
		return nil
	})
}
