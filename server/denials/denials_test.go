package denials

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

const shop = `
domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 10, unit: minute, name: burst}
    descriptors:
      - {key: path, value: /pay, rate_limit: {requests_per_unit: 5, unit: minute}}
  - {key: tenant, rate_limit: {requests_per_unit: 7, unit: hour}}
`

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// world has a recorder and the configuration in force.
type world struct {
	recorder *Recorder
	config   *descriptors.Config
	table    *Table
}

func newWorld(t testing.TB, text string) *world {
	w := &world{recorder: New()}
	w.apply(t, text)
	return w
}

func (w *world) apply(t testing.TB, text string) {
	w.config = fixture.Config(t, text)
	w.table = w.recorder.Table(w.config)
}

// deny records a denial of hits of a descriptor of the domain shop.
func (w *world) deny(at time.Time, hits uint64, shadow bool, d descriptors.Descriptor) {
	rule := w.config.Match("shop", d).Rule
	denial := Denial{At: at, Hits: hits, RetryIn: time.Minute, Limit: descriptors.Limit{Algorithm: descriptors.SlidingLog, Requests: hits, Unit: descriptors.Minute, Multiplier: 1}}
	w.table.Record(w.config.RuleIndex("shop", rule), shadow, &denial, d)
}

func entry(key, value string) descriptors.Descriptor {
	return descriptors.Descriptor{{Key: key, Value: value}}
}

func TestUnknownDomainKeepsNoDenials(t *testing.T) {
	w := newWorld(t, shop)
	for i := range 1000 {
		w.table.Record(w.config.RuleIndex(fmt.Sprint("made-up-", i), nil), false, &Denial{At: noon}, entry("a", "b"))
	}
	if n := len(w.recorder.List(Filter{})); n != 0 {
		t.Errorf("%d unknown domains are kept; requests choose their names, so memory would be theirs", n)
	}
}

func TestKnownRuleAllocatesNothing(t *testing.T) {
	w := newWorld(t, shop)
	d := entry("user", strings.Repeat("v", 2*MaxDescriptor))
	rule := w.config.Match("shop", d).Rule
	denial := Denial{At: noon, Hits: 1}
	if n := testing.AllocsPerRun(100, func() { w.table.Record(w.config.RuleIndex("shop", rule), false, &denial, d) }); n != 0 {
		t.Errorf("a denial allocates %v times; the request path pays for each of them", n)
	}
}

func TestRetryAfterCountsDown(t *testing.T) {
	d := Denial{At: noon, RetryIn: 56 * time.Second}
	for after, want := range map[time.Duration]time.Duration{
		0: 56 * time.Second, 6 * time.Second: 50 * time.Second, time.Hour: 0, -time.Hour: 56 * time.Second, // a clock that was set back
	} {
		if got := d.RetryAfter(noon.Add(after)); got != want {
			t.Errorf("after %v it holds for %v; want %v", after, got, want)
		}
	}
	if d.RetryIn = backend.Never; d.RetryAfter(noon.Add(time.Hour)) != backend.Never {
		t.Error("a denial that no wait ends has an end")
	}
}

func FuzzAKeptDescriptorIsBoundedAndWhole(f *testing.F) {
	f.Add("user", "ann", "path", "/pay")
	f.Add("user", strings.Repeat("é", 300), "a,b", `c\d`)
	f.Add("user", strings.Repeat("a", MaxDescriptor-7)+"é", "", "")
	f.Add("\x00\x1b[2J", "\xff\xfe", "k", strings.Repeat("\x80", 600))
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		of := descriptors.Descriptor{{Key: a, Value: b}, {Key: c, Value: d}}
		whole, got := of.String(), string(of.AppendShort([]byte("before "), MaxDescriptor))
		got = strings.TrimPrefix(got, "before ")
		switch {
		case len(got) > MaxDescriptor:
			t.Errorf("%d bytes are kept of %q, want at most %d", len(got), whole, MaxDescriptor)
		case len(whole) <= MaxDescriptor && got != whole:
			t.Errorf("%q is kept of %q, which is short enough to be kept whole", got, whole)
		case len(whole) > MaxDescriptor && !strings.HasPrefix(whole, strings.TrimSuffix(got, "…")):
			t.Errorf("%q is no beginning of %q", got, whole)
		case utf8.ValidString(whole) && !utf8.ValidString(got):
			t.Errorf("%q is cut within a letter", got)
		}
	})
}
