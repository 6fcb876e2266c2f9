package denials

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/weirproxy/weir/descriptors"
)

// recordedDenial is a denial in the naive list of all denials.
type recordedDenial struct {
	at         time.Time
	path       string
	shadow     bool
	limit      uint64
	descriptor descriptors.Descriptor
	line       string // the line of an answer that has the denial
}

func lineOf(at time.Time, path string, shadow bool, limit uint64, descriptor string) string {
	return fmt.Sprint(at.Unix()/60, " ", path, shadow, limit, " ", descriptor)
}

func (n *recordedDenial) matches(q *Filter) bool {
	for _, e := range q.Descriptor {
		if !slices.Contains(n.descriptor, e) {
			return false
		}
	}
	return (q.Path == "" || q.Path == n.path)
}

// randomDescriptor returns one of few descriptors, so that they repeat. Some are longer than MaxDescriptor.
func randomDescriptor(random *rand.Rand, users int) descriptors.Descriptor {
	d := entry("user", fmt.Sprint("u", random.IntN(users)))
	switch random.IntN(6) {
	case 0:
		d = append(d, descriptors.Entry{Key: "path", Value: "/pay"})
	case 1:
		d = append(entry("long", strings.Repeat("é,", MaxDescriptor)), d...)
	case 2:
		d = entry("tenant", d[0].Value)
	}
	return d
}

// For random denials in random order, an answer has each denial of the naive list once, in the line of its minute, unless
// it was before the answer's since.
func TestRecentDenialsMatchANaiveList(t *testing.T) {
	overflowed, histories, longest := 0, uint64(6), 30_000
	if testing.Short() {
		histories, longest = 3, 15_000
	}
	for seed := range histories {
		random := rand.New(rand.NewPCG(seed, 24))
		w := newWorld(t, shop)
		var all []recordedDenial
		users, at := 1+random.IntN(1+2000*int(seed%3)), noon
		for range 1 + random.IntN(longest) {
			at = at.Add(time.Duration(random.Int64N(int64(40 * time.Millisecond))))
			n := recordedDenial{at: at.Add(-time.Duration(random.Int64N(int64(3 * time.Second)))), shadow: random.IntN(9) == 0,
				limit: 1 + random.Uint64N(2), descriptor: randomDescriptor(random, users)}
			if rule := w.config.Match("shop", n.descriptor).Rule; rule != nil {
				n.path = rule.Path
			} else {
				n.path = descriptors.UnmatchedPath
			}
			n.line = lineOf(n.at, n.path, n.shadow, n.limit, string(n.descriptor.AppendShort(nil, MaxDescriptor)))
			w.deny(n.at, n.limit, n.shadow, n.descriptor)
			all = append(all, n)
		}
		for range 8 {
			q := Filter{Values: true}
			if random.IntN(4) > 0 {
				q.Descriptor = randomDescriptor(random, users)
			}
			if random.IntN(4) == 0 {
				q.Path = "tenant"
			}
			begin := noon.Truncate(time.Minute).Add(time.Duration(random.IntN(12)-1) * time.Minute)
			if random.IntN(3) > 0 {
				q.From, q.To = begin, begin.Add(time.Duration(1+random.IntN(4))*time.Minute)
			}
			compare(t, seed, w, all, q)
		}
		if !w.recorder.recent.completeSince.IsZero() {
			overflowed++
		}
	}
	if overflowed == 0 || overflowed == int(histories) {
		t.Errorf("%d histories overflow the ring; want some that do, and some that do not", overflowed)
	}
}

// line is a line of an answer.
type line struct {
	requests uint64
	first    time.Time
	evicted  bool // the answer may miss a denial of the line, because it is older than since
}

func compare(t *testing.T, seed uint64, w *world, all []recordedDenial, q Filter) {
	t.Helper()
	kept, more, since := w.recorder.Recent(q, slots)
	got, want := make(map[string]line), make(map[string]line)
	for i := range kept {
		k := &kept[i]
		name := lineOf(k.First, k.Path, k.Shadow, k.Last.Limit.Requests, k.Descriptor)
		l := got[name] // of two long descriptors that begin alike there are two lines
		if l.first.IsZero() || k.First.Before(l.first) {
			l.first = k.First.UTC()
		}
		l.requests += k.Requests
		got[name] = l
	}
	for i := range all {
		n := &all[i]
		if !n.matches(&q) || !q.To.IsZero() && (n.at.Before(q.From) || !n.at.Before(q.To)) {
			continue
		}
		l := want[n.line]
		if l.first.IsZero() || n.at.Before(l.first) {
			l.first = n.at
		}
		l.requests++
		l.evicted = l.evicted || n.at.Before(since)
		want[n.line] = l
	}
	for name, l := range want {
		if g := got[name]; !l.evicted && g != l || g.requests > l.requests {
			t.Errorf("seed %d, %v from %v to %v, all kept since %v: %.99s is %v, and the answer says %v", seed, q.Descriptor, q.From, q.To, since, name, l, g)
		}
		delete(got, name)
	}
	if len(got) > 0 || more > 0 {
		t.Errorf("seed %d, %v: the answer has %.200v that was not denied, and leaves out %d", seed, q.Descriptor, got, more)
	}
}

// Eight goroutines record denials, and one reads. Denials that are missing in the answer were before its since. Denials
// come out of order, because requests wait for their stores; still a rule's last denial is less than a millisecond older
// than the newest.
func TestConcurrentDenialsAreListedExactlyOnce(t *testing.T) {
	w := newWorld(t, shop)
	const goroutines, each = 8, 8000
	begin := noon.Truncate(time.Minute)
	var want [4][3]atomic.Uint64 // by minute and user
	var newest [goroutines]int64 // Unix nanoseconds
	var running sync.WaitGroup
	for g := range goroutines {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for i := range each {
				minute, user := min(3, 4*i/each), random.IntN(3)
				at := begin.Add(time.Duration(minute)*time.Minute + time.Duration(i%(each/4))*maxLag/10 +
					time.Duration(random.Int64N(int64(20*maxLag))))
				newest[g] = max(newest[g], at.UnixNano())
				w.deny(at, 1, false, entry("user", fmt.Sprint("u", user)))
				want[minute][user].Add(1)
				if g == 0 && i < each/2 { // other denials, which evict older ones
					w.deny(begin.Add(time.Duration(minute)*time.Minute), 1, false, entry("tenant", fmt.Sprint(i)))
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		for _, k := range kept(w, Filter{Descriptor: entry("user", "u1"), Values: true}) {
			if k.Descriptor != "user=u1" || k.First.After(k.Last.At) && k.First.Sub(k.Last.At) > time.Minute {
				t.Fatalf("asked for u1, the answer has %+v", k)
			}
		}
	}
	all := w.recorder.List(Filter{Path: "user"})[0]
	if all.Requests != goroutines*each || all.Hits != goroutines*each {
		t.Errorf("the rule counts %d requests, want each of %d once", all.Requests, goroutines*each)
	}
	if old := time.Duration(slices.Max(newest[:]) - all.Last.At.UnixNano()); old < 0 || old >= maxLag {
		t.Errorf("the rule's last denial is %v older than the newest; want less than %v", old, maxLag)
	}
	_, _, since := w.recorder.Recent(Filter{}, 0)
	for minute := range want {
		for user := range want[minute] {
			var got uint64
			from := begin.Add(time.Duration(minute) * time.Minute)
			for _, k := range kept(w, Filter{Descriptor: entry("user", fmt.Sprint("u", user)), From: from, To: from.Add(time.Minute)}) {
				got += k.Requests
			}
			if n := want[minute][user].Load(); got > n || got < n && !since.After(from) {
				t.Errorf("in minute %d u%d was denied %d times, and the answer, which has all since %v, says %d", minute, user, n, since, got)
			}
		}
	}
}

func kept(w *world, q Filter) []Summary {
	all, _, _ := w.recorder.Recent(q, slots)
	return all
}

func TestRecentDenialsAreBounded(t *testing.T) {
	for name, length := range map[string]int{"short": 1, "long": 4 * MaxDescriptor} {
		w := newWorld(t, shop)
		for i := range 2 * slots { // each of another user, within one minute, so that there are as many as can be
			w.deny(noon.Add(time.Duration(i)*time.Microsecond), 1, false, entry("user", fmt.Sprint(strings.Repeat("x", length), i)))
		}
		held := make(map[*group]bool)
		for _, k := range w.recorder.recent.ring {
			held[k] = true
		}
		for _, k := range w.recorder.recent.byHash {
			held[k] = true
		}
		delete(held, nil)
		bytes := 0
		for k := range held {
			last := k.last.Load()
			bytes += int(unsafe.Sizeof(*k)+unsafe.Sizeof(*last)) + len(last.descriptor) + 8*cap(k.entries)
		}
		if len(held) > slots || bytes > slots*slotBytes {
			t.Errorf("%s descriptors: %d groups are held in %d bytes; want at most %d in %d, whatever requests bring", name, len(held), bytes, slots, slots*slotBytes)
		}
		if length == 1 && len(held) < slots/2 {
			t.Errorf("of short descriptors %d groups are held; want most of the %d slots used", len(held), slots)
		}
	}
}

// A hot key takes one slot a minute, and so do hundreds of others: they evict no older denials.
func TestHotKeysEvictNoOtherDenials(t *testing.T) {
	w := newWorld(t, shop)
	w.deny(noon, 1, false, entry("user", "ann"))
	for i := range 12_000 { // of 300 keys for ten minutes, each every 15 seconds
		w.deny(noon.Add(time.Duration(i)*50*time.Millisecond), 1, false, entry("user", fmt.Sprint("hot", i%300)))
	}
	all, more, since := w.recorder.Recent(Filter{Descriptor: entry("user", "ann")}, 10)
	if len(all) != 1 || more != 0 || !since.IsZero() {
		t.Errorf("of ann's denial ten minutes ago %d lines are kept (all since %v); want one: denials of others fold by the minute", len(all), since)
	}
}

func TestDenialIsFoundByAnyEntry(t *testing.T) {
	w := newWorld(t, shop)
	of := descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: strings.Repeat("é", MaxDescriptor)}, {Key: "note", Value: `a,b\c=d`}}
	w.deny(noon, 1, false, of)
	for text, want := range map[string]int{
		"user=ann": 1, "user=an": 0, "user=bob": 0, "path=": 0, "user=ann,note=" + `a\,b\\c=d`: 1, "note=" + `a\,b\c=d`: 1, "note=x,user=ann": 0,
		"userann=": 0, "user=ann,user=ann": 1, of.String(): 1, of[1:2].String(): 1, of[1:2].String() + "x": 0,
	} {
		asked, err := descriptors.ParseDescriptor(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(kept(w, Filter{Descriptor: asked})); n != want {
			t.Errorf("%.40q finds %d denials, want %d: what lies beyond %d bytes counts as well", text, n, want, MaxDescriptor)
		}
	}
}

// Without values, lines of one minute and limit would be equal, so they are merged.
func TestLinesWithoutValuesCoverAllDescriptors(t *testing.T) {
	w := newWorld(t, shop)
	for i := range 9 {
		w.deny(noon.Add(time.Duration(i)*time.Second), 2, false, entry("user", fmt.Sprint("u", i%3)))
		w.deny(noon.Add(time.Duration(i)*time.Second), 2, true, entry("user", "u0"))
	}
	w.deny(noon.Add(time.Minute), 2, false, entry("user", "u0"))
	all, more, _ := w.recorder.Recent(Filter{}, 2)
	if len(all) != 2 || more != 1 || all[0].Descriptors != 1 || all[1].Descriptors != 3 {
		t.Fatalf("%d lines and %d more, %+v; want the later minute, three descriptors, and one more", len(all), more, all)
	}
	all, _, _ = w.recorder.Recent(Filter{}, 9)
	if s := all[1]; s.Requests != 9 || s.Shadow || !all[2].Shadow || s.Hits != 18 || s.Descriptors != 3 || !s.First.Equal(noon) || !s.Last.At.Equal(noon.Add(8*time.Second)) {
		t.Errorf("three descriptors are %+v, want 9 requests of 18 hits from noon to 8 s later", s)
	}
	if all, _, _ = w.recorder.Recent(Filter{Values: true}, 9); len(all) != 5 {
		t.Errorf("with values there are %d lines, want one of each descriptor", len(all))
	}
}
