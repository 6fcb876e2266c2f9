package limit

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/server/hits"
)

// How much of a key is leased is by the rate at which this process is asked for it.
func TestAKeyIsKnownByItsRate(t *testing.T) {
	at, r := time.Unix(1_800_000_000, 0), new(rates)
	const ann, bob, carl hits.Key = 7, 8, 7 + 1<<50
	var got float32
	for i := range 400 { // 20 a second
		got = r.add(ann, 1, at.Add(time.Duration(i)*50*time.Millisecond))
	}
	at = at.Add(20 * time.Second)
	late := r.add(ann, 1, at.Add(-time.Second)) // as later requests may overtake it
	for name, rate := range map[string]float32{"in time": got, "late": late, "once more": r.add(ann, 0, at)} {
		if rate < 18 || rate > 22 {
			t.Errorf("a key that is asked for 20 times a second has a rate of %v, %s; want about 20", rate, name)
		}
	}
	if rate := r.add(ann, 0, at.Add(15*time.Second)); rate != 0 {
		t.Errorf("15 seconds later its rate is %v; want none", rate)
	}
	if b, c := r.add(bob, 1, at), r.add(carl, 1, at); b != 0 || c != 0 {
		t.Errorf("other keys have rates of %v and %v; want 0 of a key that is new, in a slot of its own or another's", b, c)
	}
}

func BenchmarkRates(b *testing.B) {
	r, at := new(rates), time.Now()
	for i := hits.Key(0); b.Loop(); i++ {
		r.add(i*0x9E3779B97F4A7C15, 1, at)
	}
}
