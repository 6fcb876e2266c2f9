package descriptors

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
)

// KeyFormat is the format of the keys of counters.
type KeyFormat uint8

const (
	// KeysOfWeir is the zero value: weir's keys, which no two descriptors share.
	KeysOfWeir KeyFormat = iota
	// KeysOfRatelimit means envoyproxy/ratelimit's keys, with their collisions, for the rules that it can serve, so that
	// both programs can count together, or one after the other. Other rules have weir's keys.
	KeysOfRatelimit
)

// UnmarshalText reads the name of a format.
func (f *KeyFormat) UnmarshalText(name []byte) error {
	if i := slices.Index(keyFormats, string(name)); i >= 0 {
		*f = KeyFormat(i)
		return nil
	}
	return fmt.Errorf("%s is not a format of keys: use weir or ratelimit", Quote(string(name)))
}

// String returns the format's name.
func (f KeyFormat) String() string { return keyFormats[f] }

var keyFormats = []string{"weir", "ratelimit"}

// Keys configures the keys of counters. The prefix, which may be "", separates them from other keys in the same store.
type Keys struct {
	Format KeyFormat
	Prefix string
}

// ratelimitMark begins a key of envoyproxy/ratelimit until a store removes it. No weir key begins with it.
const ratelimitMark = '\x00'

// RatelimitKey reports whether key is one of envoyproxy/ratelimit, and returns it without the mark. The store appends
// the window's beginning in decimal Unix seconds.
func RatelimitKey(key []byte) (stem []byte, ok bool) {
	if len(key) == 0 || key[0] != ratelimitMark {
		return nil, false
	}
	return key[1:], true
}

// FitsRatelimit reports whether envoyproxy/ratelimit could count the rule: one fixed window of one unit, always
// charged.
func (r *Rule) FitsRatelimit() bool { return len(r.Limits) == 1 && r.Limits[0].fitsRatelimit(r.Charge) }

func (l *Limit) fitsRatelimit(c Charge) bool {
	return l.Algorithm == FixedWindow && l.Multiplier == 1 && c.Always(l)
}

const (
	// maxLiteral is the longest part, in bytes, that a key has literally; longer parts are hashed.
	maxLiteral = 128
	// maxKey is the longest key, in bytes; longer keys are hashed, so that requests cannot make long keys. For
	// envoyproxy/ratelimit's keys it bounds the stem after the prefix.
	maxKey = 1024
)

// appendPart appends a part of a key: a short one as its length, a colon and its bytes; a long one as '#' and 43
// characters of its SHA-256. Different lists of parts make different keys, as lengths begin with a digit, and the end
// of each part is known.
func appendPart(dst []byte, part string) []byte {
	if len(part) > maxLiteral {
		sum := sumOf(part)
		return base64.RawURLEncoding.AppendEncode(append(dst, '#'), sum[:])
	}
	dst = strconv.AppendUint(dst, uint64(len(part)), 10)
	dst = append(dst, ':')
	return append(dst, part...)
}

// sumOf returns the SHA-256 of a text. It hashes pieces, as a conversion would copy the whole text to the heap.
func sumOf(text string) (sum [sha256.Size]byte) {
	hash, piece := sha256.New(), [1024]byte{}
	for n := 0; text != ""; text = text[n:] {
		n = copy(piece[:], text)
		hash.Write(piece[:n])
	}
	hash.Sum(sum[:0])
	return sum
}

// AppendKey appends the key under which a descriptor's hits are counted: the configuration's prefix, if any, the
// domain, then each entry's key, and its value or the pattern whose values share a count. user=ann in domain shop makes
// 4:shop4:user3:ann. Different parts never make the same key, whatever their bytes, except for collisions of SHA-256 in
// parts of over 128 bytes and keys of over 1 KiB. It allocates only to grow dst.
//
// A key of envoyproxy/ratelimit is shop_user_ann_ after a zero byte; see [RatelimitKey]. If it has over 1 KiB it is
// hashed, unlike in that program, so the two programs then do not share it.
func (m Match) AppendKey(dst []byte, domain string, d Descriptor) []byte {
	if m.ratelimitKey {
		return m.appendRatelimitKey(dst, domain, d)
	}
	begin := len(dst)
	if m.keys.Prefix != "" {
		dst = appendPart(dst, m.keys.Prefix)
	}
	dst = appendPart(dst, domain)
	for i := range d {
		dst = appendPart(dst, d[i].Key)
		dst = appendPart(dst, m.Rule.countedValue(d, i))
	}
	if len(dst)-begin > maxKey {
		sum := sha256.Sum256(dst[begin:])
		dst = base64.RawURLEncoding.AppendEncode(append(dst[:begin], "##"...), sum[:]) // no part begins with two
	}
	return dst
}

// appendRatelimitKey appends a key of envoyproxy/ratelimit. A long key becomes ##HASH_; all others have three '_' or
// more.
func (m Match) appendRatelimitKey(dst []byte, domain string, d Descriptor) []byte {
	dst = append(dst, ratelimitMark)
	dst = append(dst, m.keys.Prefix...)
	begin := len(dst)
	dst = append(append(dst, domain...), '_')
	for i := range d {
		dst = append(append(dst, d[i].Key...), '_')
		dst = append(append(dst, m.Rule.countedValue(d, i)...), '_')
	}
	if len(dst)-begin > maxKey {
		sum := sha256.Sum256(dst[begin:])
		dst = base64.RawStdEncoding.AppendEncode(append(dst[:begin], "##"...), sum[:]) // RawURLEncoding has '_'
		dst = append(dst, '_')
	}
	return dst
}
