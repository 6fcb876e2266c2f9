package denials

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// grace is how long the denials of a rule that is gone are kept.
	grace = 10 * time.Minute
	// maxGone is of how many such rules they are kept.
	maxGone = 1000
)

// Recorder keeps denials by rule, whatever configuration is in force. Its methods may be called by any number of
// goroutines.
type Recorder struct {
	mu     sync.Mutex // a rule's first denial may wait for it, so it is never held for long
	slots  map[ruleName]*slot
	latest *Table // nil before the first
	recent recent
}

// ruleName is what a slot is found by.
type ruleName struct {
	domain, path string
	shadow       bool
}

// New makes a recorder.
func New() *Recorder {
	return &Recorder{slots: make(map[ruleName]*slot), recent: recent{seed: maphash.MakeSeed()}}
}

// Table makes the table of a configuration that is about to be put in force. Rules that it does not have are forgotten
// by [Recorder.Sweep].
func (r *Recorder) Table(c *descriptors.Config) *Table {
	t := &Table{recorder: r, config: c, number: 1, domains: make(map[string]*domainTable, c.Domains())}
	for _, name := range c.DomainNames() {
		t.domains[name] = &domainTable{name: name}
	}
	for _, rule := range c.Rules() {
		t.domains[rule.Domain].rules = append(t.domains[rule.Domain].rules, pair{})
	}
	r.mu.Lock()
	if r.latest != nil {
		t.number = r.latest.number + 1
	}
	r.latest = t
	r.mu.Unlock()
	t.adopt()
	return t
}

// adopt marks the rules that have slots and that the table has. The others are found by their first denial.
func (t *Table) adopt() {
	known := make(map[ruleName]*slot)
	for _, s := range t.recorder.all() {
		known[s.name] = s
	}
	if len(known) == 0 {
		return
	}
	mark := func(p *pair, domain, path string) {
		for _, shadow := range []bool{false, true} {
			if name := (ruleName{domain, path, shadow}); known[name] != nil {
				p.of(shadow).Store(t.recorder.add(name, t.number))
			}
		}
	}
	for name, in := range t.domains {
		mark(&in.unmatched, name, history.Unmatched)
	}
	for _, rule := range t.config.Rules() {
		mark(&t.domains[rule.Domain].rules[rule.Number], rule.Domain, rule.Path)
	}
}

// add returns the slot of a rule that a table has, made if it has none.
func (r *Recorder) add(name ruleName, table uint64) *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[name]
	if s == nil {
		s = &slot{name: name}
		r.slots[name] = s
	}
	s.table = max(s.table, table)
	return s
}

// all returns the slots that there are.
func (r *Recorder) all() []*slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(make([]*slot, 0, len(r.slots)), maps.Values(r.slots))
}

// Sweep forgets rules that the latest configuration does not have: ten minutes after a sweep first found them gone, and at
// once those that are longest gone, if there are more than a thousand.
func (r *Recorder) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var gone []*slot
	inForce := sync.OnceValue(r.latest.names) // only what seems to have gone since the last sweep is looked for
	for name, s := range r.slots {
		if s.table != r.latest.number && s.gone.IsZero() && inForce()[ruleName{name.domain, name.path, false}] {
			s.table = r.latest.number // an earlier table, whose requests still ran, had its first denial
		}
		switch {
		case s.table == r.latest.number:
			s.gone = time.Time{}
			continue
		case s.gone.IsZero():
			s.gone = now
		}
		if now.Sub(s.gone) >= grace {
			delete(r.slots, name)
			continue
		}
		gone = append(gone, s)
	}
	if len(gone) > maxGone {
		slices.SortFunc(gone, func(a, b *slot) int { return a.gone.Compare(b.gone) })
		for _, s := range gone[:len(gone)-maxGone] {
			delete(r.slots, s.name)
		}
	}
}

// Question says which denials are asked for. Its zero value asks for all, without their descriptors.
type Question struct {
	Domain string // "" for all
	Path   string // as it is stored or as people are shown it; "" for all
	Values bool   // hand out descriptors

	// Of Recent alone: only of descriptors that have each of these entries, and denied from From until before To; the zero
	// value of each for all.
	Descriptor descriptors.Descriptor
	From, To   time.Time
}

func (q *Question) means(rule ruleName) bool {
	return (q.Domain == "" || q.Domain == rule.domain) && (q.Path == "" || descriptors.SamePath(rule.path, q.Path))
}

// List returns what is kept about each rule that a question means, the newest denial first.
func (r *Recorder) List(q Question) []Kept {
	var all []Kept
	for _, s := range r.all() {
		if !q.means(s.name) {
			continue
		}
		if k, ok := s.kept(&s.tally, q.Values); ok {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b Kept) int {
		return cmp.Or(b.Last.At.Compare(a.Last.At), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Path, b.Path))
	})
	return all
}
