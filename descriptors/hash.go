package descriptors

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"slices"
)

// hashShown is how many bytes of a configuration's hash are shown: enough that two never have the same by chance.
const hashShown = 8

// hashOf returns the hash of a configuration; see [Config.Hash].
func hashOf(domains map[string]*Domain, broken []string) string {
	w := newHashWriter()
	w.number(uint64(len(domains)))
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		sum := domains[name].contentSum()
		w.text(name)
		w.text(string(sum[:]))
	}
	w.texts(broken)
	sum := w.sum()
	return hex.EncodeToString(sum[:hashShown])
}

// contentSum returns the hash of all that decides what becomes of a request in the domain, and what it is told. It is
// made once, as configurations share domains.
func (d *Domain) contentSum() [sha256.Size]byte {
	d.sumOnce.Do(func() {
		w := newHashWriter()
		w.flag(d.Refunds)
		w.node(&d.Root)
		d.sum = w.sum()
	})
	return d.sum
}

// hashWriter writes what is hashed so that no two contents are written alike: texts and lists have their length in front.
type hashWriter struct {
	to     hash.Hash
	buffer *bufio.Writer // whose writes never fail, as those of a hash
}

func newHashWriter() *hashWriter {
	to := sha256.New()
	return &hashWriter{to, bufio.NewWriter(to)}
}

// sum returns the hash of all that was written.
func (w *hashWriter) sum() (sum [sha256.Size]byte) {
	_ = w.buffer.Flush()
	w.to.Sum(sum[:0])
	return sum
}

func (w *hashWriter) number(n uint64) {
	_, _ = w.buffer.Write(binary.AppendUvarint(w.buffer.AvailableBuffer(), n))
}

func (w *hashWriter) text(s string) {
	w.number(uint64(len(s)))
	_, _ = w.buffer.WriteString(s)
}

func (w *hashWriter) texts(all []string) {
	w.number(uint64(len(all)))
	for _, s := range all {
		w.text(s)
	}
}

func (w *hashWriter) flag(is bool) {
	if is {
		w.number(1)
	} else {
		w.number(0)
	}
}

// node writes what may follow n: patterns in their order, since the first that fits applies, all others by their names.
func (w *hashWriter) node(n *Node) {
	w.flag(n.Rule != nil)
	if n.Rule != nil {
		w.rule(n.Rule)
	}
	w.number(uint64(len(n.patterns.all)))
	for _, p := range n.patterns.all {
		w.child(p.Entry, p.next)
	}
	exact := slices.SortedFunc(maps.Keys(n.exact), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	exact = slices.DeleteFunc(exact, func(e Entry) bool { return e.isPattern() })
	w.number(uint64(len(exact)))
	for _, e := range exact {
		w.child(e, n.exact[e])
	}
	w.number(uint64(len(n.byKey)))
	for _, key := range slices.Sorted(maps.Keys(n.byKey)) {
		w.child(Entry{Key: key}, n.byKey[key])
	}
}

func (w *hashWriter) child(e Entry, n *Node) {
	w.text(e.Key)
	w.text(e.Value)
	w.node(n)
}

// rule writes a rule without what its place gives it: its domain, its path, its lines and its number.
func (w *hashWriter) rule(r *Rule) {
	w.number(uint64(len(r.Limits)))
	for i := range r.Limits {
		w.limit(&r.Limits[i])
	}
	w.number(uint64(r.Charge))
	w.number(uint64(r.OnFailure))
	w.flag(r.Unlimited)
	w.flag(r.Shadow)
	w.flag(r.Quota)
	w.text(r.Message)
	w.metadata(r.Metadata)
	w.texts(r.Replaces)
	w.text(r.Name)
	w.number(uint64(len(r.Values)))
	for _, entry := range r.Values {
		w.number(uint64(entry))
	}
	w.texts(r.Patterns)
}

// metadata writes what holds only what JSON has, by sorted keys.
func (w *hashWriter) metadata(m map[string]any) {
	if m == nil {
		w.text("")
		return
	}
	written, err := json.Marshal(m)
	if err != nil {
		written = []byte(err.Error())
	}
	w.text(string(written))
}

func (w *hashWriter) limit(l *Limit) {
	for _, n := range []uint64{l.Requests, uint64(l.Window), uint64(l.Precision), uint64(l.Algorithm), l.Burst, uint64(l.Unit),
		uint64(l.Multiplier)} {
		w.number(n)
	}
	w.text(l.Name)
}
