package limit

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/server/hits"
)

// How much of a key is leased is by the rate at which this process is asked for it.
func TestChecksCarryTheirKeysRate(t *testing.T) {
	at, r := time.Unix(1_800_000_000, 0), new(rates)
	const ann, bob, carl, dora hits.Key = 7, 8, 7 + 1<<50, 7 + 1<<51
	var got float32
	for i := range 400 { // 20 a second
		got = r.add(ann, 1, at.Add(time.Duration(i)*50*time.Millisecond))
	}
	at = at.Add(20 * time.Second)
	late := r.add(ann, 1, at.Add(-time.Second)) // as later requests may overtake it
	more := r.add(ann, 0, at)
	for name, rate := range map[string]float32{"in time": got, "late": late, "once more": more} {
		if rate < 18 || rate > 22 {
			t.Errorf("a key that is asked for 20 times a second has a rate of %v, %s; want about 20", rate, name)
		}
	}
	if rate := r.add(ann, 0, at.Add(45*time.Minute)); rate != 0 {
		t.Errorf("three quarters of an hour later its rate is %v; want none", rate)
	}
	r.add(ann, 3, at)
	if r.add(dora, 1, at); r.add(ann, 0, at) == 0 {
		t.Error("a key of one hit takes the slot of one that has three; want that left to it")
	}
	at = at.Add(20 * time.Second)
	for _, key := range []hits.Key{bob, carl} {
		if rate := r.add(key, 1, at); rate != 0 {
			t.Errorf("key %x has a rate of %v; want 0 of a key that is new, in a slot of its own or another's", key, rate)
		}
	}
}
