package descriptors

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// hashOf returns the hash of a configuration; see [Config.Hash].
func hashOf(domains map[string]*Domain, broken []string) string {
	sums := make(map[string][sha256.Size]byte, len(domains))
	for name, d := range domains {
		sums[name] = d.contentSum()
	}
	hash := sha256.New()
	_ = json.NewEncoder(hash).Encode([]any{sums, broken})
	return hex.EncodeToString(hash.Sum(nil)[:8]) // enough against accidental collisions
}

// contentSum returns a hash of all settings that affect decisions or answers of the domain. Encoding cannot fail.
func (d *Domain) contentSum() [sha256.Size]byte {
	d.sumOnce.Do(func() {
		hash := sha256.New()
		e := json.NewEncoder(hash)
		_ = e.Encode(d.Refunds)
		d.Root.encode(e)
		hash.Sum(d.sum[:0])
	})
	return d.sum
}

// encode writes n's rule, without its position, and its children: patterns in their order, which matters, others
// sorted.
func (n *Node) encode(e *json.Encoder) {
	var rule *Rule
	if n.Rule != nil {
		r := *n.Rule
		r.Domain, r.Path, r.Where, r.Number = "", "", "", 0
		rule = &r
	}
	var entries []Entry
	for _, p := range n.patterns.all {
		entries = append(entries, p.Entry)
	}
	for entry := range n.children {
		if !entry.isPattern() {
			entries = append(entries, entry)
		}
	}
	slices.SortFunc(entries[len(n.patterns.all):], func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	_ = e.Encode([]any{rule, entries})
	for _, entry := range entries {
		n.children[entry].encode(e)
	}
}
