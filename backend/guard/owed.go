package guard

import "time"

// maxOwed is how many keys one owed knows.
const maxOwed = 2048

// owed knows, by the hashes of keys, what they owe: hits that were leased and not used, and still count. It is far
// smaller than leases are, so that a key can give its place to another one and yet lease no more than its share.
type owed map[uint64]debt

// debt is hits that count until a moment at most.
type debt struct {
	hits  uint64
	until time.Time
}

// note notes what a key owes, and reports whether there was room. It forgets some that is over.
func (o owed) note(key uint64, d debt, now time.Time) bool {
	if d.hits == 0 {
		return true
	}
	seen := 0
	for key, old := range o {
		if len(o) < maxOwed || seen == 16 {
			break
		}
		if seen++; now.After(old.until) {
			delete(o, key)
		}
	}
	if len(o) >= maxOwed {
		return false
	}
	o[key] = d
	return true
}

// take forgets what a key owes, and returns it.
func (o owed) take(key uint64) debt {
	d := o[key]
	delete(o, key)
	return d
}
