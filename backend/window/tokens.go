package window

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Tokens is the [State] of a token bucket. Hits leak evenly, one window's requests in each window; those that have not
// leaked count. All numbers are integers and change by whole hits and windows, so no rounding errors add up.
//
// Hits began to leak at last − age. If the clock steps back before last, last moves back, and with it the whole state:
// no hit leaks twice, and no wait becomes longer.
type Tokens struct {
	window Instant

	requests uint64  // hits that leak in a window; at least 1
	last     Instant // when the state last changed
	age      Instant // how long hits had been leaking at last; below a window
	hits     uint64  // hits counted since last − age, leaked ones included; 0 if none count
}

// Matches implements [State].
func (t *Tokens) Matches(l *descriptors.Limit) bool {
	return l.Algorithm == descriptors.TokenBucket && t.window == micros(l.Window)
}

// SetRate implements [State]. The share of the next hit that has leaked does not change, so that hits also leak if
// callers use two rates in turns.
func (t *Tokens) SetRate(l *descriptors.Limit, now Instant) {
	requests := max(1, l.Requests)
	if requests == t.requests {
		return
	}
	level, age := t.Sum(now), Instant(0)
	if level > 0 {
		age = t.ageOfNext(now)
	}
	product := float64(float64(age) * float64(t.requests))
	t.hits, t.requests, t.last = level, requests, now
	t.age = min(Instant(math.Floor(product/float64(requests))), t.timeToLeak(1)-1)
}

// ageOfNext returns how long the next hit has been leaking at now. At least one hit must count.
func (t *Tokens) ageOfNext(now Instant) Instant {
	age := (now - t.last + t.age) % t.window
	if hits := t.leaked(age); hits > 0 {
		age = max(0, age-t.timeToLeak(hits))
	}
	return age
}

// Sum implements [State].
func (t *Tokens) Sum(now Instant) uint64 {
	if t.hits == 0 {
		return 0
	}
	t.last = min(t.last, now)
	age := now - t.last + t.age
	whole := uint64(age / t.window)
	if whole <= t.hits/t.requests {
		if left, leaked := t.hits-whole*t.requests, t.leaked(age%t.window); left > leaked {
			return left - leaked
		}
	}
	t.hits = 0
	return 0
}

// leaked returns how many hits leak within an age, which must be below a window. It never falls as the age grows. The
// conversions to float64 round each product and quotient on every processor, as the doubles of the Redis script.
func (t *Tokens) leaked(age Instant) uint64 {
	product := float64(float64(age) * float64(t.requests))
	return min(t.requests, uint64(math.Floor(product/float64(t.window))))
}

// timeToLeak returns the first age at which so many hits have leaked. hits is at least 1 and at most a window's
// requests.
func (t *Tokens) timeToLeak(hits uint64) Instant {
	if hits >= t.requests {
		return t.window
	}
	product := float64(float64(hits) * float64(t.window))
	age := Instant(math.Ceil(product / float64(t.requests)))
	for age > 0 && t.leaked(age-1) >= hits {
		age--
	}
	for t.leaked(age) < hits {
		age++
	}
	return age
}

// Add counts delta hits at now, up to descriptors.MaxBurst in all; a negative delta removes hits, at most all of them.
func (t *Tokens) Add(now Instant, delta int64) {
	level := t.Sum(now)
	delta = max(-int64(level), min(delta, descriptors.MaxBurst-int64(level)))
	if delta == 0 {
		return
	}
	if level == 0 {
		t.age = 0
	} else {
		age := now - t.last + t.age
		t.hits -= uint64(age/t.window) * t.requests
		t.age = age % t.window
	}
	t.last = now
	t.hits += uint64(delta)
	if level+uint64(delta) == 0 {
		t.hits = 0
	}
}

// Until implements [State]. It returns at most MaxCount.
func (t *Tokens) Until(now Instant, most uint64) Instant {
	if t.Sum(now) <= most {
		return now
	}
	return t.untilLeaked(most)
}

// untilLeaked returns when at most this many hits count; more must count now.
func (t *Tokens) untilLeaked(most uint64) Instant {
	excess := t.hits - most
	whole := (excess - 1) / t.requests
	if whole > uint64(MaxCount/t.window) {
		return MaxCount
	}
	return min(MaxCount, t.last-t.age+Instant(whole)*t.window+t.timeToLeak(excess-whole*t.requests))
}

// Expires implements [State].
func (t *Tokens) Expires() Instant {
	if t.hits == 0 {
		return 0
	}
	return t.untilLeaked(0)
}

// Count implements [State]. ResetIn is the time until the next hit leaks.
func (t *Tokens) Count(l *descriptors.Limit, now Instant) backend.LimitCount {
	at := *t
	at.SetRate(l, now)
	c := backend.LimitCount{Limit: *l, Hits: at.Sum(now)}
	if c.Hits > 0 {
		c.ResetIn = now.until(at.Until(now, c.Hits-1))
	}
	return c
}

// Append implements [State]. It appends the algorithm and window, then the numbers.
func (t *Tokens) Append(dst []byte) []byte {
	dst = appendIdentity(dst, descriptors.TokenBucket, time.Duration(t.window)*time.Microsecond, 0)
	for _, v := range []uint64{t.requests, uint64(t.last), uint64(t.age), t.hits} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// tokens reads a token bucket with a window; false if it is invalid. Its hits leak at the old rate until SetRate.
func (r *reader) tokens(window Instant) (*Tokens, bool) {
	t := &Tokens{window: window, requests: r.uvarint(), last: Instant(r.uvarint()), age: Instant(r.uvarint()), hits: r.uvarint()}
	return t, t.requests >= 1 && t.requests <= descriptors.MaxBurst && t.hits <= descriptors.MaxBurst+t.requests &&
		t.last >= 0 && t.last <= MaxCount && t.age >= 0 && t.age < t.window
}
