package callcmd

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

func TestPercentilesAreAtMostOnePercentTooHigh(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(math.Exp(random.Float64() * 25)) // from 1 ns to 72 s
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.9999, 1} {
		exact := all[int(math.Ceil(q*float64(len(all))))-1]
		got := h.quantile(q)
		if got < exact || float64(got) > float64(exact)*1.011+1 {
			t.Errorf("quantile %v is %d ns, want %d ns or at most 1.1 %% more", q, got, exact)
		}
	}
	if h.quantile(1) != h.max || h.max != all[len(all)-1] {
		t.Errorf("the largest of all is %v, want exactly %v", h.max, all[len(all)-1])
	}
}

func TestTerminalProgressIsRewrittenInPlace(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out, request: &request{keys: 1}, terminal: true, paint: terminal.Paint{On: true}}
	open := outcome{resp: answered(perMinute(10, 9, time.Minute))}
	shut := outcome{resp: answered(perMinute(10, 0, time.Minute))}
	r.add(100*time.Millisecond, &open)
	r.progress(time.Second)
	r.add(1500*time.Millisecond, &shut)
	want := "\r\x1b[?7l    1s  1 sent (1/s), \x1b[32m1 OK\x1b[0m, 0 over, 0 errors" +
		"; last: 10/minute, 9 left, resets in 1m\x1b[K\x1b[?7h" +
		"\r\x1b[K  1.5s  \x1b[31mover\x1b[0m: 10/minute, again in 1m\n"
	if out.String() != want {
		t.Errorf("the terminal gets\n%q\nwant\n%q", out.String(), want)
	}
}
