package topology

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Rendezvous hashing (Thaler and Ravishankar, 1996): each node has a score for a key, and the highest owns it, so a
// node that comes or goes moves only its own keys. The scores are those of go-redis's Ring, which placed keys before.

// keyHash returns the hash of a Redis key: that of its hash tag, if it has one, so that keys of one tag stay together.
func keyHash(key []byte) uint64 {
	if _, rest, found := bytes.Cut(key, []byte("{")); found {
		if tag, _, closed := bytes.Cut(rest, []byte("}")); closed && len(tag) > 0 {
			key = tag
		}
	}
	return xxhash.Sum64(key)
}

// score returns the score of a node for a key: the hashes of its name and of the key, mixed by xorshift64*.
func score(node, key uint64) uint64 {
	x := node ^ key
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	return x * 2685821657736338717
}
