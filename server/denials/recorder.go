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

// Recorder keeps denials by rule, beyond reloads. Its methods may be called by any number of goroutines.
type Recorder struct {
	rules  *byrule.Registry[ruleDenials]
	recent recent
}

// ruleDenials are those of a rule: what was refused, and what shadow mode let through.
type ruleDenials [2]ruleTally

// ruleTally is the tally of a rule, with or without shadow mode.
type ruleTally struct {
	tally
	name   byrule.Name
	shadow bool
	logged uint64 // requests that Log has told of, used by it alone
}

// tally counts denials, and keeps the last.
type tally struct {
	requests, hits atomic.Uint64
	last           atomic.Pointer[lastDenial] // nil before the first
}

// lastDenial is a denial that is kept. It never changes.
type lastDenial struct {
	Denial
	descriptor string
}

// keepInterval is how much later than the one that is kept a denial must be to take its place: a rule that denies
// thousands of requests a second pays for counting them, and for writing down one in a while.
const keepInterval = time.Millisecond

// New makes a recorder.
func New() *Recorder {
	rules := byrule.New(func(e *byrule.Entry[ruleDenials], _ *descriptors.Rule) {
		e.Kept[0].name, e.Kept[1].name, e.Kept[1].shadow = e.Name, e.Name, true
	})
	return &Recorder{rules: rules, recent: recent{seed: maphash.MakeSeed(), open: make(map[uint64]*streak)}}
}

// Table keeps the denials of one configuration in the Recorder. Its methods may be called by any number of goroutines.
type Table struct {
	recorder *Recorder
	rules    *byrule.Table[ruleDenials]
}

// Table makes the table of a configuration that is about to be put in force.
func (r *Recorder) Table(c *descriptors.Config) *Table { return &Table{r, r.rules.Table(c)} }

// Note counts a denial by a rule of the table's configuration, nil for no rule, and keeps it as the rule's last and
// among the recent ones, unless what is kept is less than a millisecond older. It waits only for a rule's first denial
// and for other denials, and allocates only for those that it keeps.
func (t *Table) Note(rule *descriptors.Rule, domain string, shadow bool, d *Denial, descriptor descriptors.Descriptor) {
	e, known := t.rules.Entry(rule, domain)
	if !known {
		return // nothing is limited there
	}
	s := &e.Kept[0]
	if shadow {
		s = &e.Kept[1]
	}
	s.note(d, descriptor)
	t.recorder.recent.note(s, d, descriptor)
}

func (t *tally) note(d *Denial, descriptor descriptors.Descriptor) {
	var next *lastDenial
	for last := t.last.Load(); last == nil || d.At.Sub(last.At) >= keepInterval; last = t.last.Load() {
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

// tallies returns those of all rules.
func (r *Recorder) tallies() (all []*ruleTally) {
	for _, e := range r.rules.All() {
		all = append(all, &e.Kept[0], &e.Kept[1])
	}
	return all
}

// Filter says which denials are asked for. Its zero value asks for all, without their descriptors.
type Filter struct {
	Domain string // "" for all
	Path   string // as it is stored or as people are shown it; "" for all
	Values bool   // hand out descriptors

	// Of Recent alone: descriptors with all these entries, denied from From until before To. The zero values mean all.
	Descriptor descriptors.Descriptor
	From, To   time.Time
}

func (f *Filter) matches(rule byrule.Name) bool {
	return (f.Domain == "" || f.Domain == rule.Domain) && (f.Path == "" || descriptors.SamePath(rule.Path, f.Path))
}

// List returns what is kept about each rule that a filter matches, the newest denial first.
func (r *Recorder) List(q Filter) []Summary {
	var all []Summary
	for _, s := range r.tallies() {
		if !q.matches(s.name) {
			continue
		}
		if k, ok := s.summary(&s.tally, q.Values); ok {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b Summary) int {
		return cmp.Or(b.Last.At.Compare(a.Last.At), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Path, b.Path))
	})
	return all
}

// summary returns what is kept of denials by the rule, and false before its first denial is there.
func (s *ruleTally) summary(t *tally, values bool) (k Summary, ok bool) {
	requests := t.requests.Load()
	last := t.last.Load()
	if requests == 0 || last == nil {
		return Summary{}, false
	}
	k = Summary{Domain: s.name.Domain, Path: s.name.Path, Shadow: s.shadow, Last: last.Denial, Requests: requests,
		Hits: t.hits.Load()}
	if values {
		k.Descriptor = last.descriptor
	}
	return k, true
}
