package limit

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/hits"
)

// How much of a key is leased is by the rate at which this process is asked for it.
func TestAKeyIsKnownByItsRate(t *testing.T) {
	at, r := time.Unix(1_800_000_000, 0), new(rates)
	const ann, bob, carl hits.Key = 7, 8, 7 + 1<<50
	var got float32
	for i := range 400 { // 20 a second
		got, _ = r.add(ann, 1, at.Add(time.Duration(i)*50*time.Millisecond))
	}
	at = at.Add(20 * time.Second)
	late, _ := r.add(ann, 1, at.Add(-time.Second)) // as later requests may overtake it
	more, ago := r.add(ann, 0, at)
	if ago > tick {
		t.Errorf("its last hit is %v ago; want about none", ago)
	}
	for name, rate := range map[string]float32{"in time": got, "late": late, "once more": more} {
		if rate < 18 || rate > 22 {
			t.Errorf("a key that is asked for 20 times a second has a rate of %v, %s; want about 20", rate, name)
		}
	}
	if rate, ago := r.add(ann, 0, at.Add(15*time.Second)); rate != 0 || ago != 15*time.Second {
		t.Errorf("15 seconds later its rate is %v, and its last hit %v ago; want none, and 15 s", rate, ago)
	}
	if rate, ago := r.add(ann, 0, at.Add(45*time.Minute)); rate != 0 || ago != never {
		t.Errorf("three quarters of an hour later its rate is %v, and its last hit %v ago; want none, and never", rate, ago)
	}
	for _, key := range []hits.Key{bob, carl} {
		if rate, ago := r.add(key, 1, at); rate != 0 || ago != never {
			t.Errorf("key %x has a rate of %v, and its last hit was %v ago; want 0 and never of a key that is new, in a "+
				"slot of its own or another's", key, rate, ago)
		}
	}
}

// Most keys of a long tail are asked for a few times in a lease's time: the second question for one can be spared only
// if the first one leases.
func TestAKeyWithoutARateHasThatOfItsRule(t *testing.T) {
	const span = time.Minute
	for _, tc := range []struct {
		every int // so many keys one comes back
		want  bool
	}{{1, true}, {2, true}, {8, false}, {1000, false}} {
		var of reuse
		if rate := of.rate(never, span); rate != 0 {
			t.Errorf("the first key of a rule has a rate of %v; want 0, since nothing is known of the rule", rate)
		}
		var rate float32
		for i := range 10_000 {
			ago := span * 15 / 16 // most leases have ended by then
			if i%tc.every == 0 {
				ago = span / 16
			}
			rate = of.rate(ago, span)
		}
		if hits := rate * float32(span.Seconds()); (hits >= backend.MinLeaseHits) != tc.want {
			t.Errorf("where every %d. key comes back, one is expected to have %v hits more; want a lease: %v", tc.every, hits, tc.want)
		}
	}
}
