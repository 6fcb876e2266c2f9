package dropin_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// The incumbent is played by what it writes: INCRBY and EXPIRE on its key, where a reply above the limit is a denial.
func TestHalfTheTrafficOnTheOtherProgramIsOneCountUnderItsRights(t *testing.T) {
	t.Parallel()
	const callers, each, limit, year = 4, 250, 1500, 365 * 86400
	redis := redistest.Single(t, redistest.WithACL("limiter", "secret", "resetchannels", "~*", "-@all", "+incrby", "+expire", "+get",
		"+ping", "+hello"))
	rules := weirtest.Rule("basic", fmt.Sprint("unit: year, requests_per_unit: ", limit)) +
		weirtest.Rule("rolling", "unit: hour, requests_per_unit: 3, algorithm: sliding_window")
	w := weirtest.Ratelimit(t, nil, rules, "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "REDIS_AUTH=limiter:secret",
		weirtest.PatientRedis)
	key := fmt.Sprint("shop_plan_basic_user_ann_", time.Now().Unix()/year*year)
	var weirs, others atomic.Int64
	var running sync.WaitGroup
	for range callers {
		c := w.Client(t)
		running.Go(func() {
			for range each {
				switch s, err := c.Hit("basic", "ann"); {
				case err != nil:
					t.Errorf("asking weir: %v", err)
					return
				case s.Code.String() == "OK":
					weirs.Add(1)
				}
			}
		})
		running.Go(func() {
			for range each {
				pipe := redis.Client().Pipeline()
				count := pipe.IncrBy(t.Context(), key, 1)
				pipe.Expire(t.Context(), key, year*time.Second)
				if _, err := pipe.Exec(t.Context()); err != nil {
					t.Errorf("counting as envoyproxy/ratelimit does: %v", err)
					return
				}
				if count.Val() <= limit {
					others.Add(1)
				}
			}
		})
	}
	running.Wait()
	if got := weirs.Load() + others.Load(); got != limit || weirs.Load() == 0 || others.Load() == 0 {
		t.Errorf("%d hits were admitted by weir and %d by the other, want %d in all, and some by each", weirs.Load(), others.Load(), limit)
	}
	if n := counted(t, redis, "shop_"); n != 2*callers*each {
		t.Errorf("Redis counts %d, want %d: one count, and each hit once", n, 2*callers*each)
	}
	if left, err := redis.Client().TTL(t.Context(), key).Result(); err != nil || left <= 0 || left > (year+300)*time.Second {
		t.Errorf("%s is kept for %v (%v), want at most a window and its jitter: else it is counted for ever", key, left, err)
	}
	refused, err := redis.Client().ACLLog(t.Context(), 10).Result()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis has refused %+v (%v), want nothing that weir asks for to need more rights", refused, err)
	}
	testCountersOfPlainKeys(t, w, limit, 2*callers*each)
	c := w.Client(t)
	if _, err := c.Hit("rolling", "ann"); err == nil {
		t.Error("a rolling window was counted without the right to do so")
	}
	if _, err := c.Look("basic", "ann"); err != nil {
		t.Errorf("beside a rule that cannot be counted: %v", err)
	}
	keys, err := redis.Client().Keys(t.Context(), "*").Result()
	if err != nil || !slices.Equal(keys, []string{key}) {
		t.Errorf("Redis holds %q (%v), want only %s: weir writes nothing unasked", keys, err, key)
	}
	if err := redis.Client().Do(t.Context(), "ACL", "SETUSER", "limiter", "+scan", "+dbsize", "+get").Err(); err != nil {
		t.Fatal(err)
	}
	if printed, code := w.Command(t, "counters", "top", "--domain", "shop"); code != 0 || !strings.Contains(printed, "plan=basic,user=ann") {
		t.Errorf("once it may list keys, weir counters top ends with %d and prints\n%s", code, printed)
	}
	testLongKeys(t, w, redis, limit)
}

// testLongKeys counts, gives back, looks at and lists hits of values whose stems have 1 KB, one byte more, and 70 KB, beside
// a key that is there.
func testLongKeys(t *testing.T, w *weirtest.Weir, redis *redistest.Server, limit int) {
	t.Helper()
	whole := "shop_plan_basic_user_" + strings.Repeat("u", 1002) + "_"
	for _, user := range []string{strings.Repeat("u", 1002), strings.Repeat("u", 1003), strings.Repeat("u", 70_000)} {
		c := w.Client(t)
		_, first := c.Hit("basic", user)
		_, second := c.Hit("basic", user)
		_, refund := c.Refund(1, "basic", user)
		s, err := c.Look("basic", user)
		if err = errors.Join(first, second, refund, err); err != nil || int(s.LimitRemaining) != limit-1 {
			t.Errorf("after 2 hits and a refund of 1 a look at a user of %d bytes has %v, %v; want %d left", len(user), s, err, limit-1)
		}
		if len(user) > 2000 {
			continue // which the admin port does not take in a URL
		}
		printed, code := w.Command(t, "counters", "get", "--json", "--domain", "shop", "--descriptor", "plan=basic,user="+user)
		if code != 0 || !strings.Contains(printed, `"hits":1,`) {
			t.Errorf("weir counters get ends with %d and prints\n%.1000s", code, printed)
		}
	}
	keys, err := redis.Client().Keys(t.Context(), "*").Result()
	longest := slices.MaxFunc(keys, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if err != nil || len(keys) != 4 || !strings.HasPrefix(longest, whole) || len(longest) > 1200 {
		t.Errorf("Redis holds %.1100q (%v), want 4 keys: the longest is envoyproxy/ratelimit's of 1 KB, others are hashed", keys, err)
	}
	if printed, code := w.Command(t, "counters", "top", "--domain", "shop"); code != 0 || !strings.Contains(printed, "2 keys do not tell") {
		t.Errorf("weir counters top ends with %d and prints\n%.3000s\nwant that it cannot read two hashes", code, printed)
	}
}

// testCountersOfPlainKeys grants hits, shows what is left of a limit of which so many hits are counted, fails to reset it,
// and has the right to list keys named.
func testCountersOfPlainKeys(t *testing.T, w *weirtest.Weir, limit, hits int) {
	t.Helper()
	const granted = 600
	for _, step := range []struct {
		args, want string
		code       int
	}{
		{"grant --hits 600 --domain shop --descriptor plan=basic,user=ann", "", 0},
		{"get --json --domain shop --descriptor plan=basic,user=ann", fmt.Sprintf(`"hits":%d,`, hits-granted), 0},
		{"reset --domain shop --descriptor plan=basic,user=ann", "+del", 2},
		{"top --domain shop", "ACL SETUSER limiter +scan +dbsize +get", 2},
	} {
		printed, code := w.Command(t, append([]string{"counters"}, strings.Fields(step.args)...)...)
		if code != step.code || !strings.Contains(printed, step.want) {
			t.Errorf("weir counters %s ends with %d and prints\n%s\nwant %d, and %q in it", step.args, code, printed, step.code, step.want)
		}
	}
	s, err := w.Client(t).Hit("basic", "ann")
	if want := limit - (hits - granted) - 1; err != nil || int(s.LimitRemaining) != want {
		t.Errorf("after a grant: %v, %v; want %d left", s, err, want)
	}
}
