package window

import (
	"bytes"
	"encoding/hex"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

var steps = flag.Int("steps", 100_000, "random steps of the agreement test; make soak walks three million")

// The running sum of State and the literal reading of Buckets must agree after every step, whatever the clock does.
func TestStateAgreesWithBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, uint64(*steps)))
	for done := 0; done < *steps; {
		l := randomSliding(t, r)
		if r.IntN(4) == 0 {
			l = limit(t, l.Requests, l.Unit, l.Multiplier, descriptors.FixedWindow, 0)
		}
		state, buckets := NewState(&l), NewBuckets(&l)
		now := Instant(1.7e15 + r.Int64N(1e13))
		for range 300 {
			done++
			now += randomStep(r, &l)
			hits := int64(r.IntN(8)) - 3
			if r.IntN(50) == 0 {
				hits *= MaxCount / 2
			}
			state.Add(now, hits)
			buckets.Add(now, hits)
			if got, want := state.Sum(now), buckets.Sum(now); got != want {
				t.Fatalf("%v: State counts %d, its buckets %d", l, got, want)
			}
			keep := r.Uint64N(6)
			if got, want := state.Until(now, keep), buckets.Until(now, keep); got != want {
				t.Fatalf("%v: at most %d count from %d says State, from %d say its buckets", l, keep, got, want)
			}
			checkBounds(t, &l, state, now)
		}
	}
}

// instants is a sliding log as defined: one entry a hit, in no order.
type instants struct {
	window Instant
	hits   []Instant
}

// Sum forgets what has left, and moves what is later than now to it.
func (g *instants) Sum(now Instant) uint64 {
	g.hits = slices.DeleteFunc(g.hits, func(t Instant) bool { return t+g.window <= now })
	for i := range g.hits {
		g.hits[i] = min(g.hits[i], now)
	}
	return uint64(len(g.hits))
}

func (g *instants) Add(now Instant, delta int64) {
	g.Sum(now)
	slices.Sort(g.hits)
	for ; delta < 0 && len(g.hits) > 0; delta++ {
		g.hits = g.hits[:len(g.hits)-1]
	}
	for ; delta > 0; delta-- {
		g.hits = append(g.hits, now)
	}
}

// Until tries all moments at which anything leaves.
func (g *instants) Until(now Instant, keep uint64) Instant {
	moments := []Instant{now}
	for _, t := range g.hits {
		moments = append(moments, t+g.window)
	}
	slices.Sort(moments)
	for _, m := range moments {
		left := 0
		for _, t := range g.hits {
			if t+g.window > m {
				left++
			}
		}
		if uint64(left) <= keep {
			return m
		}
	}
	return -1
}

// A log must agree with one that keeps every single hit, whatever the clock does.
func TestALogAgreesWithEverySingleHit(t *testing.T) {
	r := rand.New(rand.NewPCG(7, uint64(*steps)))
	for done := 0; done < *steps/4; {
		l := limit(t, 10, descriptors.Unit(1+r.IntN(7)), 1+r.Uint32N(5), descriptors.SlidingLog, 0)
		state, log := NewState(&l), &instants{window: micros(l.Window)}
		now := Instant(1.7e15 + r.Int64N(1e13))
		for range 300 {
			done++
			now += randomStep(r, &l)
			hits := int64(r.IntN(8)) - 3
			state.Add(now, hits)
			log.Add(now, hits)
			now += Instant(r.Int64N(3)) - 1
			keep := r.Uint64N(6)
			if got, want := state.Sum(now), log.Sum(now); got != want {
				t.Fatalf("%v: State counts %d, each single hit %d", l, got, want)
			}
			if got, want := state.Until(now, keep), log.Until(now, keep); got != want {
				t.Fatalf("%v: at most %d count from %d says State, from %d say the single hits", l, keep, got, want)
			}
			if uint64(state.Len()) > log.Sum(now) {
				t.Fatalf("%v holds %d cells for %d hits", l, state.Len(), log.Sum(now))
			}
		}
	}
}

// A hit counts for exactly its window: at the last microsecond, and not at the next.
func TestAHitOfALogLeavesExactly(t *testing.T) {
	l := limit(t, 1, descriptors.Minute, 1, descriptors.SlidingLog, 0)
	s := NewState(&l)
	s.Add(noon+7, 1)
	if last, gone := s.Sum(noon+7+60e6-1), s.Sum(noon+7+60e6); last != 1 || gone != 0 {
		t.Errorf("in its last microsecond a hit counts %d, after it %d; want 1 and 0", last, gone)
	}
}

// randomStep returns a step of the clock: mostly forward within the window, sometimes past it, sometimes back.
func randomStep(r *rand.Rand, l *descriptors.Limit) Instant {
	w := int64(micros(l.Window))
	switch r.IntN(20) {
	case 0:
		return Instant(2 * r.Int64N(w))
	case 1:
		return -Instant(r.Int64N(w))
	case 2, 3, 4:
		return 0
	}
	return Instant(r.Int64N(w/10 + 1))
}

func checkBounds(t *testing.T, l *descriptors.Limit, s State, now Instant) {
	t.Helper()
	most := 1
	if l.Precision > 0 {
		most = int((l.Window+l.Precision-1)/l.Precision) + 1
	}
	if s.Len() > most || uint64(s.Len()) > s.Sum(now) {
		t.Fatalf("%v holds %d cells for %d hits; at most %d buckets can count", l, s.Len(), s.Sum(now), most)
	}
	if gone := s.Expires(); s.Sum(now) > 0 && gone > now+micros(l.Window)+micros(l.Precision) {
		t.Fatalf("%v expires %d µs from now: longer than its window and a precision", l, gone-now)
	}
}

func TestStateSurvivesEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		l := randomSliding(t, r)
		switch r.IntN(4) {
		case 0:
			l = limit(t, l.Requests, l.Unit, l.Multiplier, descriptors.SlidingLog, 0)
		case 1:
			l = bucket(t, l.Requests, 100, l.Unit, l.Multiplier)
		}
		s := NewState(&l)
		now := Instant(1.7e15)
		for range r.IntN(50) {
			now += randomStep(r, &l)
			s.Add(now, int64(1+r.IntN(1000)))
		}
		encoded := s.Append([]byte("x"))
		got, rest, err := ReadState(append(encoded[1:], "rest"...))
		if err != nil || string(rest) != "rest" {
			t.Fatalf("reading back: %v, %q left", err, rest)
		}
		if !bytes.Equal(got.Append(nil), s.Append(nil)) || got.Sum(now) != s.Sum(now) || !got.For(&l) {
			t.Fatalf("%v: the state read is not the state written", l)
		}
	}
}

func FuzzReadState(f *testing.F) {
	l, _ := descriptors.NewLimit(10, descriptors.Minute, 1, descriptors.SlidingWindow, 0)
	s := NewState(&l)
	s.Add(1.7e15, 3)
	s.Add(1.7e15+5e6, 4)
	f.Add(s.Append(nil))
	l, _ = descriptors.NewLimit(10, descriptors.Minute, 1, descriptors.SlidingLog, 0)
	s = NewState(&l)
	s.Add(1.7e15, 3)
	f.Add(s.Append(nil))
	l, _ = descriptors.NewLimit(10, descriptors.Minute, 1, descriptors.TokenBucket, 0)
	s = NewState(&l)
	s.Add(1.7e15, 3)
	f.Add(s.Append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, src []byte) {
		s, rest, err := ReadState(src)
		if err != nil {
			return
		}
		if len(rest) > len(src) || s.Sum(1.7e15) > MaxCount {
			t.Fatalf("a state with %d hits and %d bytes left came out of %d bytes", s.Sum(1.7e15), len(rest), len(src))
		}
		now := Instant(1.8e15)
		s.Add(now, 1)
		s.Until(now, 0)
		s.Add(now-1e6, -1)
	})
}

// One after another in real systems: two a minute, asked at 0:40, 0:50, 1:10, 1:20, 1:40.
func TestClassicExample(t *testing.T) {
	asked := []string{"00:00:40", "00:00:50", "00:01:10", "00:01:20", "00:01:40"}
	for _, tc := range []struct {
		algorithm descriptors.Algorithm
		want      []bool
	}{
		{descriptors.FixedWindow, []bool{true, true, true, true, false}},
		{descriptors.SlidingWindow, []bool{true, true, false, false, false}},
		{descriptors.SlidingLog, []bool{true, true, false, false, true}},
		{descriptors.TokenBucket, []bool{true, true, true, false, true}},
	} {
		// The fixed window's last answer is a charge of a third hit in the second minute.
		l := limit(t, 2, descriptors.Minute, 1, tc.algorithm, 0)
		s := NewState(&l)
		for i, clock := range asked {
			v := Charge([]Count{s}, []descriptors.Limit{l}, 1, descriptors.ChargeByAlgorithm, at("2026-11-21 "+clock))
			if v.Allowed != tc.want[i] {
				t.Errorf("%v: request %d at %s allowed = %v, want %v", tc.algorithm, i+1, clock, v.Allowed, tc.want[i])
			}
		}
		if tc.algorithm == descriptors.SlidingWindow {
			v := Charge([]Count{s}, []descriptors.Limit{l}, 1, descriptors.ChargeByAlgorithm, at("2026-11-21 00:01:40.999"))
			if v.Allowed || v.RetryIn != time.Millisecond {
				t.Errorf("just before 1:41 allowed = %v, again in %v; want a wait of 1ms", v.Allowed, v.RetryIn)
			}
			if v := Charge([]Count{s}, []descriptors.Limit{l}, 1, descriptors.ChargeByAlgorithm, at("2026-11-21 00:01:41")); !v.Allowed {
				t.Error("the fifth must be admitted from 1:41 on, one precision after the hit of 0:40 became a minute old")
			}
		}
	}
}

// What was saved before there were token buckets. Each holds 3 hits of noon and 4 of five seconds later.
func TestSavedStatesStayReadable(t *testing.T) {
	for _, saved := range []string{
		"0180b09dc2df018094ebdc030280d182920d030a04",
		"0280b09dc2df010001e0a7841c07",
		"0380b09dc2df01000280c0ecd8b186a2060380ade20404",
	} {
		src, err := hex.DecodeString(saved)
		if err != nil {
			t.Fatal(err)
		}
		s, rest, err := ReadState(src)
		if err != nil || len(rest) > 0 || s.Sum(noon.Plus(5*time.Second)) != 7 {
			t.Fatalf("%s: %v, %v, %d bytes left; want the 7 hits that a restart must not forget", saved, s, err, len(rest))
		}
	}
}
