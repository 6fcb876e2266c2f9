package simulatecmd

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
	historyapi "github.com/weirproxy/weir/server/history"
)

func TestThePastKeepsSumsAndLargestMinutes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	ann, bob := []descriptors.Descriptor{{{Key: "user", Value: "ann"}}}, []descriptors.Descriptor{{{Key: "user", Value: "bob"}}}
	for range 300 {
		width := []int64{60, 300, 3600, 86400}[random.IntN(4)]
		peak := 1 + random.Int64N(40)
		sum := peak + random.Int64N(peak*(width/60)-peak+1)
		p := &past{domain: "shop", random: random}
		p.spread(&historyapi.PointAnswer{Start: 86400, Width: width, Sum: uint64(sum), Peak: uint64(peak)}, [][]descriptors.Descriptor{ann})
		p.spread(&historyapi.PointAnswer{Start: 86400, Width: 60, Sum: 5, Peak: 5}, [][]descriptors.Descriptor{bob})
		asked, byMinute, last := make(map[string]int64), make(map[int64]int64), time.Time{}
		if err := p.traffic(func(r request) error {
			if r.at.Before(last) || r.at.Unix() < 86400 || r.at.Unix() >= 86400+width {
				t.Fatalf("a request at %v, after one at %v", r.at, last)
			}
			last = r.at
			if asked[r.text()]++; r.text() == "user=ann" {
				byMinute[r.at.Unix()/60]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		largest := slices.Max(slices.Collect(maps.Values(byMinute)))
		if asked["user=ann"] != sum || asked["user=bob"] != 5 || largest != peak {
			t.Fatalf("of %d hits in %d s with a largest minute of %d there are %v, with one of %d", sum, width, peak, asked, largest)
		}
	}
}

func TestLateHitsBeyondThePeakStay(t *testing.T) {
	p := &past{random: rand.New(rand.NewPCG(1, 0))}
	p.spread(&historyapi.PointAnswer{Width: 300, Sum: 52, Peak: 3}, nil)
	sum := uint64(0)
	for _, m := range p.minutes {
		sum += m.hits
	}
	if sum != 52 || p.minutes[0].hits != 11 {
		t.Errorf("52 hits in 5 minutes become %v; want all of them, at most 11 in one", p.minutes)
	}
}

func TestAPathBecomesADescriptor(t *testing.T) {
	for _, tc := range [][3]string{
		{"user/path=%2Fpay", "", "user=x,path=/pay"}, {"user/path=%2Fstatic%2F*", "user=a%2Cb", `user=a\,b,path=/static/x`},
		{"tenant", "tenant=acme", "tenant=acme"}, {"a%3Db=c", "", "a=b=c"},
	} {
		if got := descriptorOf(tc[0], tc[1], "x").String(); got != tc[2] {
			t.Errorf("%s of value %s becomes %s, want %s", tc[0], tc[1], got, tc[2])
		}
	}
}

func TestARulesHistoryIsSimulated(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	store, err := filehistory.InMemory(filehistory.Config{Retention: history.DefaultRetention(), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	minute := noon.Unix()/60 - 30
	historytest.Count(t, store, history.Increment{ID: history.ID{Domain: "shop", Path: "user", Outcome: history.Within}, Minute: minute, Hits: 30},
		history.Increment{ID: history.ID{Domain: "shop", Path: "user", Outcome: history.Over}, Minute: minute, Hits: 12},
		history.Increment{ID: history.ID{Domain: "shop", Path: "busy", Outcome: history.Within}, Minute: minute, Hits: 2e9},
		history.Increment{ID: history.ID{Domain: "shop", Path: "user", Outcome: history.Near}, Minute: minute, Hits: 9})
	port := httptest.NewServer(admin.Handler(admin.Parts{Ready: func() error { return nil }, Metrics: http.NotFoundHandler(), History: historyapi.New(store, 0, func() time.Time { return noon }), Access: &admin.Access{}}))
	defer port.Close()
	c := Command{FromHistory: true, JSON: true, Callers: 3}
	c.Path, c.Address, c.Timeout = "user", strings.TrimPrefix(port.URL, "http://"), time.Minute
	text, r, err := simulate(t, shop, c, "")
	if err != nil || len(r.Rules) != 1 || r.Rules[0].Results[0].Asked != 42 || r.Rules[0].Results[0].Callers != 3 || !strings.Contains(r.Traffic, "made up") {
		t.Errorf("%s, %v; want all hits but near ones, which are part of others, of three callers, and to be told what is made up", text, err)
	}
	c.Path = "busy"
	if text, _, err := simulate(t, shop, c, ""); err == nil || !strings.Contains(err.Error(), "the rule has 2,000,000,000 hits in this range, and at most 1,000,000,000") {
		t.Errorf("%s, %v; want so many hits refused", text, err)
	}
}
