package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/denials"
	historyapi "github.com/weirproxy/weir/server/history"
	"github.com/weirproxy/weir/server/rlqs"
)

// fleetFlags returns flags that name these ports and one that does not answer, whose address is gone.
func fleetFlags(t *testing.T, ports ...*httptest.Server) (f portFlags, gone string) {
	t.Helper()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	gone = dead.Listener.Addr().String()
	all := []string{gone}
	for _, p := range ports {
		all = append(all, p.Listener.Addr().String())
	}
	return portFlags{Port: adminport.Port{Address: strings.Join(all, ","), Timeout: time.Minute}}, gone
}

func TestDenialsOfAllWeirsAreListed(t *testing.T) {
	a, b := newDeniedWorld(t), newDeniedWorld(t)
	ann, pay := descriptors.Entry{Key: "user", Value: "ann"}, descriptors.Entry{Key: "path", Value: "/pay"}
	a.deny(30*time.Second, 40*time.Second, 1, false, backend.FromStore, ann, pay)
	a.deny(9*time.Minute, time.Second, 1, false, backend.FromStore, ann)
	b.deny(10*time.Second, 20*time.Second, 2, false, backend.FromStore, ann, pay)
	flags, gone := fleetFlags(t, a.port, b.port)
	for _, c := range []struct {
		promise string
		command denialsCommand
		want    string
	}{
		{"the newest come first", denialsCommand{N: 20}, `when     domain  rule            limit            over            still
10s ago  shop    user/path=/pay  5/minute         2 in 1 request  10s
30s ago  shop    user/path=/pay  5/minute         1               10s
9m ago   shop    user            1000/hour users  1               -
Counted since 2026-11-22 11:13:00, when the last of 2 weirs began: a row for each weir.
Asked 3 weirs: without the denials of ` + gone + ", which did not answer.\n"},
		{"no more than asked for", denialsCommand{N: 1}, "… and 2 rules more (-n lists them)"},
		{"the recent ones stand side by side", denialsCommand{N: 20, From: "-1h"}, "2026-11-22 11:59:30"},
		{"as JSON", denialsCommand{N: 20, portFlags: portFlags{JSON: true}}, `"over_requests":1,"over_hits":2},`},
		{"nothing", denialsCommand{N: 20, Path: "bytes"}, "That is of 2 weirs, and of the last that began.\nAsked 3 weirs: without the denials of " + gone + ", which did not answer.\n"},
	} {
		var out bytes.Buffer
		flags.JSON = c.command.JSON
		c.command.portFlags = flags
		err := c.command.Run(t.Context(), utc(&out))
		if got := out.String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: it prints\n%s\nwant\n%s", c.promise, got, c.want)
		}
		if err == nil || !strings.Contains(err.Error(), gone) {
			t.Errorf("%s: it ends with %v, want %s named, as it does not answer", c.promise, err, gone)
		}
	}
}

func TestDenialsNameASilentWeir(t *testing.T) {
	a, b := newDeniedWorld(t), newDeniedWorld(t)
	a.deny(30*time.Second, time.Second, 1, false, backend.FromStore, descriptors.Entry{Key: "user", Value: "ann"})
	one, gone := fleetFlags(t, a.port)
	both := portFlags{Port: adminport.Port{Address: a.port.Listener.Addr().String() + "," + b.port.Listener.Addr().String(), Timeout: time.Minute}}
	for _, c := range []struct {
		flags portFlags
		want  string
	}{
		{one, "when the last of 1 weir began: a row for each weir.\nAsked 2 weirs: without the denials of " + gone + ", which did not answer.\n"},
		{both, "when the last of 2 weirs began: a row for each weir.\nAsked 2 weirs: all answered.\n"},
	} {
		var out bytes.Buffer
		_ = (&denialsCommand{N: 20, portFlags: c.flags}).Run(t.Context(), utc(&out))
		if !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("weir denials prints\n%s\nwant it to end with\n%s", &out, c.want)
		}
	}
}

// A weir restores the denials that other weirs had stored when it began, whether these have ended or still run.
func TestStoredFleetDenialsAreListedOnce(t *testing.T) {
	a, b := newDeniedWorld(t), newDeniedWorld(t)
	a.recorder.Weir, b.recorder.Weir = "a:1", "b:1"
	ann, bob := descriptors.Entry{Key: "user", Value: "ann"}, descriptors.Entry{Key: "user", Value: "bob"}
	gone := newDeniedWorld(t)
	gone.recorder.Weir = "gone:1"
	gone.deny(30*time.Minute, time.Second, 1, false, backend.FromStore, ann)
	b.deny(20*time.Minute, time.Second, 1, false, backend.FromStore, ann)
	restore := func(to *deniedWorld, from ...*deniedWorld) {
		var stored []denials.Summary
		for _, w := range from {
			_ = w.recorder.Store(denialNoon, func(all []denials.Summary) error {
				stored = append(stored, all...)
				return errors.New("keep them for the next")
			})
		}
		to.recorder.Restore(stored)
	}
	restore(a, gone, b)
	gone.deny(30*time.Minute, time.Second, 1, false, backend.FromStore, bob) // which a did not read
	restore(b, gone)
	flags, _ := fleetFlags(t, a.port, b.port)
	var last bytes.Buffer
	_ = (&denialsCommand{N: 20, portFlags: flags}).Run(t.Context(), utc(&last))
	if want := "20m ago  shop    user  1000/hour users  1     -      at b:1\n"; !strings.Contains(last.String(), want) {
		t.Errorf("the last denials are\n%s\nwant %s, as rows of two weirs may look alike", &last, want)
	}
	for values, want := range map[bool]string{
		false: `when                 domain  rule  limit            over  decided by
2026-11-22 11:40:00  shop    user  1000/hour users  1     the store's count  at b:1
2026-11-22 11:30:00  shop    user  1000/hour users  2     the store's count  at gone:1, of 2 descriptors: --values tells them apart
`,
		true: `2026-11-22 11:30:00  shop    user  1000/hour users  1     the store's count  at gone:1
    user=ann
`} {
		var out bytes.Buffer
		_ = (&denialsCommand{N: 20, From: "-1h", Values: values, portFlags: flags}).Run(t.Context(), utc(&out))
		if got := out.String(); !strings.Contains(got, want) || strings.Count(got, "user=ann") > 2 {
			t.Errorf("with values %v it prints\n%s\nwant\n%s", values, got, want)
		}
	}
}

func TestCountersOfAllWeirsAreShown(t *testing.T) {
	one, other, empty := countersPort(t, &admin.Access{Host: "127.0.0.1"}), countersPort(t, &admin.Access{Host: "127.0.0.1"}), httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(admin.CountersAnswer{Domain: "shop", Descriptor: "user=ann", Path: "user",
				Limits: []admin.LimitAnswer{{Limit: "10/minute", Remaining: 10}}})
		}))
	defer empty.Close()
	flags, gone := fleetFlags(t, one, other, empty)
	for asJSON, want := range map[bool][]string{
		false: {one.Listener.Addr().String() + ", " + other.Listener.Addr().String() + ":\nshop user=ann   rule user\n\n10/minute   9 of 10",
			empty.Listener.Addr().String() + ":\nshop user=ann   rule user\n\n10/minute   0 of 10"},
		true: {`{"domain":"shop","descriptor":"user=ann","path":"user"`, `"remaining":1,`, `"remaining":10,`},
	} {
		var out bytes.Buffer
		get := countersGet{countersTarget{Domain: "shop", Descriptor: "user=ann", portFlags: flags}}
		get.JSON = asJSON
		err := get.Run(t.Context(), utc(&out))
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("counters get of three weirs prints\n%s\nwant %s in it: answers that are alike once, each with its weirs", &out, part)
			}
		}
		if err == nil || !strings.Contains(err.Error(), gone) {
			t.Errorf("counters get ends with %v, want %s named, as it does not answer", err, gone)
		}
	}
}

func TestTopOfAllWeirsIsTheirSum(t *testing.T) {
	port := func(missing *uint64, found int, rows ...admin.TopRow) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(admin.TopAnswer{Domain: "shop", Source: "process", By: "over", From: 1795262400, To: 1795262442,
				Found: found, Missing: missing, Top: rows})
		}))
		t.Cleanup(s.Close)
		return s
	}
	row := func(who string, over uint64) admin.TopRow {
		return admin.TopRow{Descriptor: "user=" + who, Path: "user", Limit: "10/minute", RankedHits: historyapi.RankedHits{Hits: over + 10, Within: 10, Over: over}}
	}
	two, none := uint64(2), uint64(0)
	flags, gone := fleetFlags(t, port(&two, 2, row("bob", 6), row("ann", 5)), port(&none, 9, row("ann", 7), row("eve", 3)))
	const want = `shop   2 weirs, the 42s since 12:00:00, most over first

  hits  over  near      limit  rule  key
    32    12     0  10/minute  user  user=ann
    16     6     0  10/minute  user  user=bob

1 more: -n lists them. Counts of over may be up to 5 too low, and a key that is not listed had 5 at most.
`
	var out bytes.Buffer
	err := (&countersTop{Domain: "shop", By: "over", N: 2, portFlags: flags}).Run(t.Context(), utc(&out))
	if out.String() != want || err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("counters top of two weirs prints\n%s\nand %v, want\n%s\nand %s named", &out, err, want, gone)
	}
	later := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(admin.TopAnswer{By: "cost", Found: 1, Missing: &none, Top: []admin.TopRow{row("ann", 7)}})
	}))
	defer later.Close()
	flags, _ = fleetFlags(t, later, later)
	if err = (&countersTop{Domain: "shop", By: "cost", N: 2, portFlags: flags}).Run(t.Context(), utc(&out)); err == nil ||
		!strings.Contains(err.Error(), `rank by "cost"`) {
		t.Errorf("a ranking of a later version ends with %v, want it named", err)
	}
	flags, _ = fleetFlags(t, port(nil, 1, row("ann", 7)), port(nil, 1, row("ann", 7)))
	out.Reset()
	_ = (&countersTop{Domain: "shop", By: "over", N: 2, From: "-1h", portFlags: flags}).Run(t.Context(), utc(&out))
	if !strings.Contains(out.String(), "17     7") {
		t.Errorf("of the history two weirs answer\n%s\nwant the 7 hits that both know of, not their sum", &out)
	}
}

func TestQuotasOfAllWeirsAreListed(t *testing.T) {
	port := func(all ...rlqs.Bucket) *httptest.Server {
		a := admin.QuotaAnswer{Streams: len(all)}
		for _, b := range all {
			b.Descriptor = "user=" + b.Envoy
			a.Buckets = append(a.Buckets, b)
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(a) }))
		t.Cleanup(s.Close)
		return s
	}
	bucket := func(envoy string, demand float64) rlqs.Bucket {
		return rlqs.Bucket{Domain: "shop", Path: "user", Envoy: envoy, Assignment: "share", Demand: demand, Share: 2, Ends: 9, Allowed: 5}
	}
	flags, gone := fleetFlags(t, port(bucket("10.0.0.7:4141", 3), bucket("10.0.0.8:4141", 1)), port(bucket("10.0.0.9:41410", 12)))
	const want = `domain  rule  envoy           demand/s  share/s  ends  allowed  denied
shop    user  10.0.0.9:41410  12.0      2.0      9s    5        0
    user=10.0.0.9:41410
shop    user  10.0.0.7:4141   3.0       2.0      9s    5        0
    user=10.0.0.7:4141
… and 1 bucket more (-n lists them)
Streams of Envoys: 3
`
	var out bytes.Buffer
	err := (&quotaCommand{Values: true, N: 2, portFlags: flags}).Run(t.Context(), utc(&out))
	if out.String() != want || err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("quota of two weirs prints\n%s\nand %v, want\n%s\nand %s named", &out, err, want, gone)
	}
}

func TestListsTakeOneToAThousandRows(t *testing.T) {
	for n, wrong := range map[rowCount]bool{-1: true, 0: true, 1: false, 1000: false, 1001: true} {
		if err := n.Validate(); (err != nil) != wrong {
			t.Errorf("-n %d: %v, though an admin port takes 1 to 1000: several are merged here, by slices of that length", n, err)
		}
	}
}
