package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/descriptors"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// Two weirs whose clocks differ ask in turns. A key's clock does not run backwards, or a bucket would leak at each turn.
func TestClocksWithinASecondAgree(t *testing.T) {
	t.Parallel()
	addrs := memcachedtest.StartAll(t, 1)
	for _, a := range []descriptors.Algorithm{descriptors.TokenBucket, descriptors.SlidingWindow, descriptors.FixedWindow} {
		now := new(atomic.Int64)
		now.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro())
		var stores []*Store
		for _, ahead := range []time.Duration{0, 900 * time.Millisecond} {
			stores = append(stores, opened(t, Config{Servers: addrs, now: func() time.Time { return time.UnixMicro(now.Load()).Add(ahead) }}))
		}
		l, admitted := limitOf(t, 60, descriptors.Minute, a), 0
		for i := range 200 { // 2 s
			if allowed(t, stores[i%2], hits(t, a.String(), 1, l)) {
				admitted++
			}
			now.Add(10_000)
		}
		if most := 60 + 3; admitted < 60 || admitted > most {
			t.Errorf("by %v, %d were admitted in 2 s under 60 a minute, asked by two clocks 0.9 s apart in turns; at most %d may be",
				a, admitted, most)
		}
	}
}

// A clock that is further ahead is not followed, counted, and told.
func TestStateFromTheFutureMovesToNow(t *testing.T) {
	t.Parallel()
	addrs, log := memcachedtest.StartAll(t, 1), new(process.Output)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ahead := opened(t, Config{Servers: addrs, now: func() time.Time { return at.Add(time.Hour) }})
	s := opened(t, Config{Servers: addrs, Log: logTo(log), now: func() time.Time { return at }})
	l := limitOf(t, 1, descriptors.Minute, descriptors.SlidingWindow)
	c := hits(t, own, 1, l)
	if !allowed(t, ahead, c) {
		t.Fatal("the first hit is denied")
	}
	d := ask1(t, s, c)
	if d.Allowed || d.RetryIn > l.Window+l.Precision {
		t.Errorf("%+v; want a denial that lasts no longer than a window and a precision from now", d)
	}
	if err := log.Contains("set both clocks by NTP"); err != nil || s.Stats().Ahead == 0 {
		t.Errorf("%v; %d states from the future are counted; want a line and a count", err, s.Stats().Ahead)
	}
}

// Servers come from a record, in the order that envoyproxy/ratelimit gives them; those that come and go later are
// followed, and keys keep their places but for those of the servers that changed.
func TestServersFollowTheirSRVRecord(t *testing.T) {
	t.Parallel()
	addrs := memcachedtest.StartAll(t, 3)
	slices.Sort(addrs)
	var found atomic.Pointer[[]string]
	s := opened(t, Config{SRV: "_memcache._tcp.example.com", Refresh: 10 * time.Millisecond,
		lookup: func(context.Context, string) ([]string, error) {
			if names := found.Load(); names != nil {
				return *names, nil
			}
			return nil, errors.New("no such host")
		}})
	l := lots(t)
	if d := ask1(t, s, hits(t, own, 1, l)); backend.ReasonOf(d.Err) != backend.Down || s.ProbeErr() == nil {
		t.Errorf("%+v before any server is known; want the check refused as down, and the store not ready", d)
	}
	use := func(names []string) {
		found.Store(&names)
		process.Eventually(t, "the servers are those of the record", func() error {
			return notYet(len(s.Servers()) != len(names) || len(*s.servers.Load()) != len(names))
		})
	}
	use(addrs[:2])
	var before [200]string
	for i := range before {
		before[i] = (*s.servers.Load()).byRendezvous(mix(uint64(i))).Name
	}
	use(addrs)
	moved := 0
	for i := range before {
		if now := (*s.servers.Load()).byRendezvous(mix(uint64(i))).Name; now != before[i] {
			if moved++; now != addrs[2] {
				t.Fatalf("a key moved from %s to %s, which was there before", before[i], now)
			}
		}
	}
	if moved < 30 || moved > 110 {
		t.Errorf("a third server took %d of 200 keys; want about a third", moved)
	}
	use(addrs[2:])
	if !allowed(t, s, hits(t, own, 1, l)) {
		t.Error("the server that is left does not count")
	}
}

func TestStoreConnectsByTLS(t *testing.T) {
	t.Parallel()
	server, l := memcachedtest.StartTLS(t), lots(t)
	s := opened(t, Config{Servers: []string{server.Addr}, TLS: server.TLS.Client})
	for _, key := range []string{own, plain} {
		if !allowed(t, s, hits(t, key, 1, l)) {
			t.Errorf("%q is not counted by TLS", key)
		}
	}
	stranger := opened(t, Config{Servers: []string{server.Addr}, Timeout: time.Second, TLS: func() *tls.Config { return new(tls.Config) }})
	process.Eventually(t, "who does not know the authority is told of the certificate", func() error {
		if d := ask1(t, stranger, hits(t, own, 1, l)); d.Err == nil || !strings.Contains(d.Err.Error(), "certificate") {
			return fmt.Errorf("%v", d.Err)
		}
		return nil
	})
}
