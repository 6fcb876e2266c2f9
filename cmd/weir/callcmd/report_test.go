package callcmd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
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
