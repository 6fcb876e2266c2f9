package redishistory

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestStoredDenialsAreTheDaysNewest(t *testing.T) {
	for _, kind := range []topology.Type{topology.Single, topology.Cluster, topology.Ring} {
		t.Run(string(kind), func(t *testing.T) {
			f := shared(t, kind)
			s := opened(t, f, nil, nil)
			var all []Denial
			for i := range maxDenials + 1200 { // a second apart
				all = append(all, Denial{start.Add(time.Duration(i) * time.Second), fmt.Sprint("denial ", i)})
			}
			end := all[len(all)-1].At
			for range 2 { // as when an answer is lost
				if err := s.StoreDenials(t.Context(), all, end); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.Denials(t.Context(), end)
			if err != nil || len(got) != maxDenials || got[0] != "denial 1200" || got[maxDenials-1] != all[len(all)-1].Text {
				t.Fatalf("%d are there (%v), want the newest %d, the oldest first", len(got), err, maxDenials)
			}
			later := end.Add(maxDenialAge - 10*time.Second)
			if got, err = s.Denials(t.Context(), later); err != nil || len(got) != 10 {
				t.Errorf("a day after all but ten %d are there (%v)", len(got), err)
			}
			if err = s.StoreDenials(t.Context(), nil, later); err != nil {
				t.Fatal(err)
			}
			if got, err = s.denials(t.Context(), "-inf", "+inf", maxDenials); err != nil || len(got) != 10 {
				t.Errorf("%d are stored then (%v), want ten: nobody asks for older ones, which may be personal", len(got), err)
			}
		})
	}
}
