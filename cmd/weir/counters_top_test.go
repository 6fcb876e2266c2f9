package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirproxy/weir/server/ranking"
)

// topOf returns what weir counters top prints of an answer.
func topOf(t *testing.T, a ranking.Answer) string {
	t.Helper()
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + "?" + r.URL.RawQuery
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer s.Close()
	out := new(bytes.Buffer)
	c := countersTop{Domain: "shop", N: 5, For: 3 * time.Second, portFlags: portFlags{Admin: s.Listener.Addr().String(), Timeout: time.Minute}}
	if err := c.Run(t.Context(), utc(out)); err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/counters/top?domain=shop&for=3s&n=5"; asked != want {
		t.Errorf("it asks for %s, want %s", asked, want)
	}
	return out.String()
}

func TestCountersTopDrawsWhatIsUsed(t *testing.T) {
	got := topOf(t, ranking.Answer{Domain: "shop", Seen: 412_000, Held: 1_000_000, Counted: 2413, Over: 1, Seconds: 1.94,
		Unsure: 1, NoRule: 2, Untold: 3, Warnings: []string{"node\n2 is away"},
		Top: []ranking.Row{
			{Descriptor: "tenant=t1", Path: "tenant", Limit: "100/minute", Hits: 1500, Share: 15, ResetSeconds: 27},
			{Descriptor: "user=ann,path=/v1/*", Path: "user/path=%2Fv1%2F*", Limit: "10/hour", Hits: 9, Remaining: 1, Share: 0.9, ResetSeconds: 3600, Shared: true},
			{Descriptor: "user=#abc", Path: "user", Limit: "10/minute", Burst: 40, Hits: 1, Share: 0.025, ResetSeconds: 6, Hashed: true, Ambiguous: true},
		}})
	const want = `shop   2,413 keys have hits, 1 has nothing left

warning: node�2 is away

   used                         hits               limit  resets in
  1500%  ████████████████████  1,500          100/minute        27s  tenant=t1   rule tenant
    90%  ██████████████████        9             10/hour         1h  user=ann,path=/v1/* (all values that fit)   rule user/path=/v1/*
     2%  █                         1  10/minute burst 40         6s  user=#abc (#: a hash) (or another)   rule user

Saw 412,000 of about 1,000,000 keys (41%) in 1.9s; ask again for the next part, or with a longer --for.
1 key may be as full as these: there was no time to read it in full.
2 keys of the domain are no rule's: requests brought their limits, or former rules did.
3 keys do not tell what they count: they are hashes, since they were too long.
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
