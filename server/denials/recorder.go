package denials

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

// Recorder keeps denials by rule, across reloads. Its methods may be called by any number of goroutines.
type Recorder struct {
	Weir string // the name of this process, for stored denials

	rules  *byrule.Registry[ruleDenials]
	recent recent
}

// ruleDenials has a rule's tallies: of denials, and of requests that only shadow mode let through.
type ruleDenials struct{ denied, shadow ruleTally }

// ruleTally is the tally of a rule, with or without shadow mode.
type ruleTally struct {
	tally
	rule   byrule.Name
	shadow bool
	weir   string // the weir that denied, for restored denials
	logged uint64 // number of requests already logged; only Log uses it
}

// tally counts denials, and keeps the last.
type tally struct {
	requests, hits atomic.Uint64
	last           atomic.Pointer[lastDenial] // nil before the first
}

// lastDenial is a stored denial. It is immutable.
type lastDenial struct {
	Denial
	descriptor string
}

// maxLag is how much newer than the stored last denial the true one may be: a rule that denies thousands of requests a
// second counts each, but stores only one in a millisecond.
const maxLag = time.Millisecond

// New makes a recorder.
func New() *Recorder {
	rules := byrule.New(func(e *byrule.Entry[ruleDenials], _ *descriptors.Rule) {
		e.Value.denied.rule, e.Value.shadow.rule, e.Value.shadow.shadow = e.Name, e.Name, true
	})
	return &Recorder{rules: rules, recent: recent{seed: maphash.MakeSeed(), byHash: make(map[uint64]*group)}}
}

// Table records the denials by the rules of one configuration. Its methods may be called by any number of goroutines.
type Table struct {
	recorder *Recorder
	rules    *byrule.Table[ruleDenials]
}

// Table makes the table of a configuration that is about to be put in force.
func (r *Recorder) Table(c *descriptors.Config) *Table { return &Table{r, r.rules.Table(c)} }

// Record counts a denial by the rule with an index of the table's configuration. It stores it as the rule's last and among
// the recent ones, unless the stored one is less than a millisecond older. It blocks only for a rule's first denial
// and for other denials, and allocates only for denials that it stores.
func (t *Table) Record(index int, shadow bool, d *Denial, descriptor descriptors.Descriptor) {
	if index == 0 {
		return // an unknown domain, which has no limits
	}
	tally := &t.rules.At(index).denied
	if shadow {
		tally = &t.rules.At(index).shadow
	}
	tally.add(d, descriptor)
	t.recorder.recent.add(tally, d, descriptor)
}

func (t *tally) add(d *Denial, descriptor descriptors.Descriptor) {
	var next *lastDenial
	for last := t.last.Load(); last == nil || d.At.Sub(last.At) >= maxLag; last = t.last.Load() {
		if next == nil {
			var room [MaxDescriptor]byte // on the stack
			next = &lastDenial{*d, string(descriptor.AppendShort(room[:0], MaxDescriptor))}
		}
		if t.last.CompareAndSwap(last, next) {
			break
		}
	}
	t.hits.Add(d.Hits)
	t.requests.Add(1)
}

// tallies returns the tallies of all rules.
func (r *Recorder) tallies() (all []*ruleTally) {
	for _, e := range r.rules.All() {
		all = append(all, &e.Value.denied, &e.Value.shadow)
	}
	return all
}

// Filter selects denials. Its zero value selects all, without their descriptors.
type Filter struct {
	Domain string // "" for all
	Path   string // stored or readable form; "" for all
	Values bool   // return descriptors

	// Only Recent uses these: descriptors with all these entries, denied from From until before To. Zero values mean all.
	Descriptor descriptors.Descriptor
	From, To   time.Time
}

func (f *Filter) matches(rule byrule.Name) bool {
	return (f.Domain == "" || f.Domain == rule.Domain) && (f.Path == "" || descriptors.SamePath(rule.Path, f.Path))
}

// List returns the summary of each rule that matches a filter, the newest denial first.
func (r *Recorder) List(f Filter) []Summary {
	var all []Summary
	for _, t := range r.tallies() {
		if !f.matches(t.rule) {
			continue
		}
		if s, ok := t.summary(&t.tally, f.Values); ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Summary) int {
		return cmp.Or(b.Last.At.Compare(a.Last.At), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Path, b.Path))
	})
	return all
}

// summary returns counts as a summary of the rule's denials. ok is false before the first denial.
func (t *ruleTally) summary(counts *tally, values bool) (s Summary, ok bool) {
	requests, last := counts.requests.Load(), counts.last.Load()
	if requests == 0 || last == nil {
		return Summary{}, false
	}
	s = Summary{Domain: t.rule.Domain, Path: t.rule.Path, Shadow: t.shadow, Last: last.Denial, Requests: requests,
		Hits: counts.hits.Load()}
	if values {
		s.Descriptor = last.descriptor
	}
	return s, true
}
