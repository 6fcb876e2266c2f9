package script

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/descriptors"
)

// hot is a key that is asked under one configuration and then under another, by a clock of the test's.
type hot struct {
	t      *testing.T
	client *redis.Client
	key    string
	now    time.Time
	asked  time.Time // by the clock of the machine
}

func newHot(t *testing.T, client *redis.Client) *hot {
	t.Helper()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return &hot{t: t, client: client, key: string(AppendKey(nil, []byte("4:shop3:hot"))), now: now}
}

// ask counts one hit under limits.
func (h *hot) ask(limits []descriptors.Limit) { h.do(backend.Check{Limits: limits, Hits: 1}) }

// askFor asks every now and then for some time.
func (h *hot) askFor(limits []descriptors.Limit, whole, every time.Duration) {
	h.t.Helper()
	for passed := time.Duration(0); passed < whole; passed += every {
		h.ask(limits)
		h.pass(every)
	}
}

func (h *hot) do(check backend.Check) backend.Decision {
	h.t.Helper()
	h.asked = time.Now()
	return asFunction.ask(h.t, h.client, h.key, h.now.UnixMicro(), check)
}

// pass lets time go by, for the key's end, too, of which Redis keeps a clock of its own. A key whose time is up is
// gone, and none goes earlier, however long the machine took for the last check.
func (h *hot) pass(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	left, err := h.client.PTTL(h.t.Context(), h.key).Result()
	if left += time.Since(h.asked); err == nil && left > d {
		err = h.client.PExpire(h.t.Context(), h.key, left-d).Err()
	} else if err == nil {
		err = h.client.Del(h.t.Context(), h.key).Err()
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// left are the names of a limit's fields.
func (h *hot) left(l *descriptors.Limit) (names []string) {
	h.t.Helper()
	all, err := h.client.HKeys(h.t.Context(), h.key).Result()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, string(appendName(nil, l))) {
			names = append(names, name)
		}
	}
	return names
}

// changes are configurations that are dropped for others. No field's name begins with that of another limit.
func changes(t *testing.T) map[string][2][]descriptors.Limit {
	limit := func(n uint64, u descriptors.Unit, times uint32, a descriptors.Algorithm, p time.Duration) descriptors.Limit {
		return backendtest.NewLimit(t, n, u, times, a, p)
	}
	const sliding, fixed, log, bucket = descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.SlidingLog, descriptors.TokenBucket
	return map[string][2][]descriptors.Limit{
		"another window": {{limit(100, descriptors.Minute, 1, sliding, 0)}, {limit(1000, descriptors.Hour, 1, sliding, 0)}},
		"another precision": {{limit(100, descriptors.Hour, 1, sliding, time.Second)},
			{limit(100, descriptors.Hour, 1, sliding, 0)}},
		"fixed to sliding": {{limit(100, descriptors.Minute, 1, fixed, 0)}, {limit(1000, descriptors.Minute, 1, sliding, 0)}},
		"sliding to fixed": {{limit(100, descriptors.Minute, 1, sliding, 0)}, {limit(10_000, descriptors.Minute, 2, fixed, 0)}},
		"one fixed for many": {{limit(100, descriptors.Minute, 1, fixed, 0)},
			{limit(9000, descriptors.Hour, 1, fixed, 0), limit(900, descriptors.Minute, 2, sliding, 0)}},
		"many for one": {{limit(100, descriptors.Minute, 1, fixed, 0), limit(900, descriptors.Hour, 1, sliding, 0), limit(9000, descriptors.Hour, 3, sliding, 0)},
			{limit(100, descriptors.Minute, 5, sliding, 0)}},
		"a bucket for another": {{limit(100, descriptors.Minute, 1, bucket, 0), limit(900, descriptors.Minute, 2, sliding, 0)},
			{limit(1000, descriptors.Hour, 1, bucket, 0)}},
		"sliding to a bucket": {{limit(100, descriptors.Minute, 1, sliding, 0)}, {limit(1000, descriptors.Minute, 10, bucket, 0)}},
		"a log for a shorter": {{limit(100, descriptors.Hour, 1, log, 0)}, {limit(100, descriptors.Minute, 1, log, 0)}},
		"a log for a longer":  {{limit(100, descriptors.Minute, 1, log, 0)}, {limit(1000, descriptors.Hour, 1, log, 0)}},
		"a log for two": {{limit(100, descriptors.Minute, 1, log, 0)},
			{limit(1000, descriptors.Hour, 1, log, 0), limit(100, descriptors.Minute, 2, log, 0)}},
	}
}

// longest is the limit of some whose hits count longest, and how long they do.
func longest(limits []descriptors.Limit) (l descriptors.Limit, whole time.Duration) {
	for i := range limits {
		if counts := limits[i].Window + limits[i].Precision; counts > whole {
			l, whole = limits[i], counts
		}
	}
	return l, whole
}

// A key that stays hot under a new configuration forgets what the old one has counted when that no longer counts, and
// not before: during a rolling update both are asked.
func TestDroppedLimitExpiresFromAHotKey(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for name, change := range changes(t) {
		t.Run(name, func(t *testing.T) { dropped(t, client, change[0], change[1]) })
	}
}

func dropped(t *testing.T, client *redis.Client, before, after []descriptors.Limit) {
	h := newHot(t, client)
	old, whole := longest(before)
	_, next := longest(after)
	step := min(whole, next) / 40
	for range 20 {
		h.ask(before)
		h.pass(step)
	}
	h.askFor(after, whole-22*step, step) // all hits of the longest limit still count, and are asked for
	if d := h.do(backend.Check{Op: backend.Look, Limits: []descriptors.Limit{old}}); d.Before != 20 {
		t.Errorf("while its hits count a replica with the old configuration sees %+v of %v; want all 20", d, old)
	}
	h.askFor(after, 22*step+whole/16+next*9/8, max(step, next/100))
	for i := range before {
		if left := h.left(&before[i]); len(left) > 0 {
			t.Errorf("%v was dropped and its hits count no more, but the hot key still holds %q", before[i], left)
		}
	}
	for i := range after {
		if len(h.left(&after[i])) == 0 {
			t.Errorf("%v is in force, and the key holds nothing of it", after[i])
		}
	}
}

func TestDroppedLimitIsTrimmedInSmallSteps(t *testing.T) {
	t.Parallel()
	client, packed := startRedis(t), startRedis(t)
	for _, setting := range []string{"hash-max-listpack-entries", "hash-max-listpack-value"} {
		if err := packed.ConfigSet(t.Context(), setting, "100000").Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit := func(u descriptors.Unit, times uint32, a descriptors.Algorithm, p time.Duration) []descriptors.Limit {
		return []descriptors.Limit{backendtest.NewLimit(t, 1e6, u, times, a, p)}
	}
	day := limit(descriptors.Day, 1, descriptors.SlidingWindow, time.Second)
	hour := limit(descriptors.Hour, 1, descriptors.SlidingWindow, 0)
	for name, tc := range map[string]struct {
		client    *redis.Client
		old, next []descriptors.Limit
	}{
		"fields of a hash that is packed, whatever its size": {packed, day, hour},
		"fields": {client, day, hour},
		"chunks of a log": {client, limit(descriptors.Hour, 1, descriptors.SlidingLog, 0),
			limit(descriptors.Minute, 5, descriptors.SlidingLog, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			old, next := tc.old, tc.next
			h := newHot(t, tc.client)
			for range 700 {
				h.ask(old)
				h.pass(old[0].Window / 720)
			}
			held := len(h.left(&old[0]))
			for range 5000 {
				h.ask(next)
				h.pass(next[0].Window / 40)
				left := len(h.left(&old[0]))
				if held-left > 200 {
					t.Fatalf("one check removed %d at once; whoever asks waits for it, and so does the whole server", held-left)
				}
				if held = left; held == 0 {
					return
				}
			}
			t.Errorf("%d are left: %q", held, h.left(&old[0])[:min(held, 3)])
		})
	}
}
