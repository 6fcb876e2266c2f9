package byrule_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

const shop = `
domain: shop
descriptors:
  - {key: user, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: tenant, rate_limit: {requests_per_unit: 10, unit: minute}}
`

// reordered has a new first rule, so that the index of each rule differs from that in shop, and no tenants.
const reordered = `
domain: shop
descriptors:
  - {key: path, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: user, rate_limit: {requests_per_unit: 99, unit: hour}}
`

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

type registry = byrule.Registry[atomic.Int64]

// world has a registry and the configuration in force.
type world struct {
	*registry
	config *descriptors.Config
	table  *byrule.Table[atomic.Int64]
}

func newWorld(t testing.TB, text string) *world {
	w := &world{registry: byrule.New[atomic.Int64](nil)}
	w.apply(t, text)
	return w
}

func (w *world) apply(t testing.TB, text string) {
	w.config = fixture.Config(t, text)
	w.table = w.Table(w.config)
}

// use adds one to the value of the rule that matches key=x in the domain shop.
func (w *world) use(key string) *atomic.Int64 {
	e := w.table.At(w.config.RuleIndex("shop", w.config.Match("shop", descriptors.Descriptor{{Key: key, Value: "x"}}).Rule))
	e.Add(1)
	return e
}

// entries returns all entries with their values, as text.
func (w *world) entries() string {
	var all []string
	for _, e := range w.All() {
		all = append(all, fmt.Sprint(e.Domain, " ", e.Path, "=", e.Value.Load()))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (w *world) expect(t *testing.T, want, why string) {
	t.Helper()
	if got := w.entries(); got != want {
		t.Errorf("kept is %q, want %q: %s", got, want, why)
	}
}

func TestEntryFollowsItsRuleAcrossReloads(t *testing.T) {
	w := newWorld(t, shop)
	w.use("user")
	w.use("nothing")
	w.apply(t, reordered)
	w.use("user")
	w.expect(t, "__unknown__ __unmatched__=0, shop __unmatched__=1, shop path=0, shop tenant=0, shop user=2", "a rule goes on where it was")
	for i := range 1000 {
		if at := w.config.RuleIndex(fmt.Sprint("made-up-", i), nil); at != 0 {
			t.Fatalf("an unknown domain has the index %d; want 0, that of all of them", at)
		}
	}
	if n := len(w.All()); n != 5 {
		t.Errorf("%d entries are kept, want no more: requests choose the names of unknown domains", n)
	}
	user := w.config.Match("shop", descriptors.Descriptor{{Key: "user"}}).Rule
	if n := testing.AllocsPerRun(100, func() { w.table.At(w.config.RuleIndex("shop", user)) }); n != 0 {
		t.Errorf("an entry that is there takes %v allocations to find; the request path pays for each", n)
	}
}

func TestRemovedRuleStaysForItsGrace(t *testing.T) {
	const others = "__unknown__ __unmatched__=0, shop __unmatched__=0, shop path=0, "
	w := newWorld(t, shop)
	late := w.use("tenant") // a request in flight uses it
	w.use("user")
	w.apply(t, reordered)
	w.Sweep(noon)
	w.Sweep(noon.Add(byrule.Grace - time.Second))
	late.Add(1)
	w.expect(t, others+"shop tenant=2, shop user=1", "a rule that went some minutes ago may still be used")
	w.Sweep(noon.Add(time.Hour))
	w.expect(t, others+"shop tenant=2, shop user=1", "if the process stood still for an hour, so did the request")
	w.Sweep(noon.Add(time.Hour + time.Second))
	w.expect(t, others+"shop user=1", "reloads would fill memory")
	w.Sweep(noon.Add(1000 * time.Hour))
	w.Sweep(noon.Add(2000 * time.Hour))
	w.expect(t, others+"shop user=1", "a rule in force is never forgotten, used or not")
	w.apply(t, shop)
	if w.use("tenant") == late {
		t.Error("a rule that was forgotten came back with what it had")
	}
}

func TestReturningRuleRestartsItsGrace(t *testing.T) {
	w := newWorld(t, shop)
	tenant := w.use("tenant")
	for i := range 4 {
		w.apply(t, reordered)
		w.Sweep(noon.Add(time.Duration(i) * byrule.Grace))
		w.apply(t, shop)
		w.Sweep(noon.Add(time.Duration(i)*byrule.Grace + time.Minute))
	}
	if w.use("tenant") != tenant {
		t.Error("a rule was forgotten that was never gone for ten minutes")
	}
}
