package window_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var steps = flag.Int("steps", 100_000, "random steps of the agreement test; make soak walks three million")

// The running sum of State and the literal reading of Buckets must agree after every step, whatever the clock does.
func TestStateAgreesWithBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, uint64(*steps)))
	for done := 0; done < *steps; {
		limits := []descriptors.Limit{backendtest.RandomLimit(r, descriptors.SlidingWindow, descriptors.SlidingWindow,
			descriptors.FixedWindow, descriptors.SlidingLog)}
		l := limits[0]
		state, buckets := window.NewState(&l), backendtest.NewBuckets(&l)
		now := window.Instant(1.7e15 + r.Int64N(1e13))
		for range 300 {
			done++
			now = max(0, now+backendtest.RandomMove(r, limits, 5))
			if r.IntN(10) == 0 {
				buckets.Sum(now)                     // both have seen the step
				now = state.Until(now, r.Uint64N(3)) // the very moment at which something leaves
			}
			hits := int64(r.IntN(8)) - 3
			if r.IntN(50) == 0 {
				hits *= window.MaxCount / 2
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
			checkBounds(t, limits, state, now)
		}
	}
}

func micros(d time.Duration) window.Instant { return window.Instant(d.Microseconds()) }

func checkBounds(t *testing.T, limits []descriptors.Limit, s window.State, now window.Instant) {
	t.Helper()
	l, most := limits[0], s.Sum(now)
	switch l.Algorithm {
	case descriptors.FixedWindow:
		most = min(most, 1)
	case descriptors.SlidingWindow:
		most = min(most, uint64((l.Window+l.Precision-1)/l.Precision)+1)
	}
	if held := backendtest.Held(window.States{s}, limits); uint64(held) > most {
		t.Fatalf("%v holds %d cells for %d hits; at most %d buckets can count", l, held, s.Sum(now), most)
	}
	if gone := s.Expires(); s.Sum(now) > 0 && gone > now+micros(l.Window)+micros(l.Precision) {
		t.Fatalf("%v expires %d µs from now: longer than its window and a precision", l, gone-now)
	}
}

func TestStateSurvivesEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		l := backendtest.RandomLimit(r, descriptors.Algorithms()...)
		s := window.NewState(&l)
		now := window.Instant(1.7e15)
		for range r.IntN(50) {
			now = max(0, now+backendtest.RandomMove(r, []descriptors.Limit{l}, 5))
			s.Add(now, int64(1+r.IntN(1000)))
		}
		encoded := s.Append([]byte("x"))
		got, rest, err := window.ReadState(append(encoded[1:], "rest"...))
		if err != nil || string(rest) != "rest" {
			t.Fatalf("reading back: %v, %q left", err, rest)
		}
		if !bytes.Equal(got.Append(nil), s.Append(nil)) || got.Sum(now) != s.Sum(now) || !got.Matches(&l) {
			t.Fatalf("%v: the state read is not the state written", l)
		}
	}
}

func FuzzReadState(f *testing.F) {
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.SlidingLog, descriptors.TokenBucket} {
		l, err := descriptors.NewLimit(10, descriptors.Minute, 1, a, 0)
		if err != nil {
			f.Fatal(err)
		}
		s := window.NewState(&l)
		s.Add(1.7e15, 3)
		s.Add(1.7e15+5e6, 4)
		f.Add(s.Append(nil))
	}
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, src []byte) {
		s, rest, err := window.ReadState(src)
		if err != nil {
			return
		}
		if len(rest) > len(src) || s.Sum(1.7e15) > window.MaxCount {
			t.Fatalf("a state with %d hits and %d bytes left came out of %d bytes", s.Sum(1.7e15), len(rest), len(src))
		}
		now := window.Instant(1.8e15)
		s.Add(now, 1)
		s.Until(now, 0)
		s.Add(now-1e6, -1)
	})
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
		s, rest, err := window.ReadState(src)
		if err != nil || len(rest) > 0 || s.Sum(noon.Plus(5*time.Second)) != 7 {
			t.Fatalf("%s: %v, %v, %d bytes left; want the 7 hits that a restart must not forget", saved, s, err, len(rest))
		}
	}
}
