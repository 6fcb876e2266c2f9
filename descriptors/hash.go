package descriptors

import (
	"bufio"
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
	sum := sumOf(func(e *json.Encoder) { _ = e.Encode([]any{sums, broken}) })
	return hex.EncodeToString(sum[:8]) // enough that two never have the same by chance
}

// contentSum returns the hash of all that decides about or answers the domain's requests. Configurations share it.
func (d *Domain) contentSum() [sha256.Size]byte {
	d.sumOnce.Do(func() {
		d.sum = sumOf(func(e *json.Encoder) {
			_ = e.Encode(d.Refunds)
			d.Root.encode(e)
		})
	})
	return d.sum
}

// sumOf returns the hash of what write encodes. Nothing fails: JSON has all that a rule has, and a hash takes every
// write.
func sumOf(write func(*json.Encoder)) (sum [sha256.Size]byte) {
	hash := sha256.New()
	buffered := bufio.NewWriter(hash)
	write(json.NewEncoder(buffered))
	_ = buffered.Flush()
	hash.Sum(sum[:0])
	return sum
}

// encode writes n's rule, without its place, and its children: patterns in their order, which matters, others by name.
func (n *Node) encode(e *json.Encoder) {
	var rule *Rule
	if n.Rule != nil {
		r := *n.Rule
		r.Domain, r.Path, r.Where, r.Number = "", "", "", 0
		rule = &r
	}
	var entries []Entry
	for entry := range n.Children() {
		entries = append(entries, entry)
	}
	slices.SortFunc(entries[len(n.patterns.all):], func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	_ = e.Encode([]any{rule, entries})
	for _, entry := range entries {
		n.children[entry].encode(e)
	}
}
