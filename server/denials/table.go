package denials

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Table finds where the denials of one configuration are kept. Tables before and after it keep them in the same place.
// Its methods may be called by any number of goroutines.
type Table struct {
	recorder *Recorder
	config   *descriptors.Config
	number   uint64 // of the recorder's tables, from 1
	domains  map[string]*domainTable
}

// domainTable has the slots of a domain.
type domainTable struct {
	name      string
	rules     []pair // by their numbers
	unmatched pair
}

// pair has a rule's slots, each from its first denial on: what was refused, and what shadow mode let through.
type pair [2]atomic.Pointer[slot]

// tally counts denials, and keeps the last.
type tally struct {
	requests, hits atomic.Uint64
	last           atomic.Pointer[lastDenial] // nil before the first
}

// slot keeps the last denial of a rule.
type slot struct {
	tally
	name ruleName

	table uint64    // number of the latest table that has the rule; for those who hold Recorder.mu
	gone  time.Time // when a sweep first found that the latest table lacks the rule; likewise
	told  told      // for the one that logs
}

// lastDenial is a denial that is kept. It never changes.
type lastDenial struct {
	Denial
	descriptor string
}

// keepEvery is how much later than the one that is kept a denial must be to take its place: a rule that denies thousands
// of requests a second pays for counting them, and for writing down one in a while.
const keepEvery = time.Millisecond

// names returns what all that the table may keep is found by, without shadow mode.
func (t *Table) names() map[ruleName]bool {
	names := make(map[ruleName]bool)
	for domain := range t.domains {
		names[ruleName{domain, history.Unmatched, false}] = true
	}
	for _, rule := range t.config.Rules() {
		names[ruleName{rule.Domain, rule.Path, false}] = true
	}
	return names
}

// Note counts a denial of a descriptor that a rule of the table's configuration matches, or nil if none does: for the rule,
// and among those of late. Each keeps it as the last unless that is less than a millisecond older: what is kept is never a
// millisecond older than the newest. Note waits only for a rule's first denial, and allocates only for those that it keeps.
func (t *Table) Note(rule *descriptors.Rule, domain string, shadow bool, d *Denial, of descriptors.Descriptor) {
	in := t.domains[domain]
	if in == nil {
		return // nothing is limited there
	}
	p, path := &in.unmatched, history.Unmatched
	if rule != nil {
		p, path = &in.rules[rule.Number], rule.Path
	}
	s := p.of(shadow).Load()
	if s == nil {
		s = t.recorder.add(ruleName{in.name, path, shadow}, t.number)
		p.of(shadow).Store(s)
	}
	s.note(d, of)
	t.recorder.recent.note(s, d, of)
}

func (p *pair) of(shadow bool) *atomic.Pointer[slot] {
	if shadow {
		return &p[1]
	}
	return &p[0]
}

func (t *tally) note(d *Denial, of descriptors.Descriptor) {
	var next *lastDenial
	for last := t.last.Load(); last == nil || d.At.Sub(last.At) >= keepEvery; last = t.last.Load() {
		if next == nil {
			var room [MaxDescriptor]byte // on the stack
			next = &lastDenial{*d, string(of.AppendShort(room[:0], MaxDescriptor))}
		}
		if t.last.CompareAndSwap(last, next) {
			break
		}
	}
	t.hits.Add(d.Hits)
	t.requests.Add(1)
}

// kept returns what a tally of the rule keeps, and false before its first denial is there.
func (s *slot) kept(t *tally, values bool) (k Kept, ok bool) {
	requests := t.requests.Load()
	last := t.last.Load()
	if requests == 0 || last == nil {
		return Kept{}, false
	}
	k = Kept{Domain: s.name.domain, Path: s.name.path, Shadow: s.name.shadow, Last: last.Denial, Requests: requests, Hits: t.hits.Load()}
	if values {
		k.Descriptor = last.descriptor
	}
	return k, true
}
