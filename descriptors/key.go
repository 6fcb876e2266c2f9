package descriptors

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
)

// KeyFormat is how the keys of counters are written.
type KeyFormat uint8

const (
	// KeysOfWeir never let two descriptors share a key; it is the zero value.
	KeysOfWeir KeyFormat = iota
	// KeysOfRatelimit are envoyproxy/ratelimit's, with its collisions, for the rules that it can serve: they count beside
	// it, and go on where it left off. Other rules have weir's keys.
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

// Keys is how a configuration writes keys. The prefix, which may be "", tells them from others in the same store.
type Keys struct {
	Format KeyFormat
	Prefix string
}

// ratelimitMark begins a key of envoyproxy/ratelimit's until a store removes it. No key of weir's begins with it.
const ratelimitMark = '\x00'

// RatelimitKey returns a key of envoyproxy/ratelimit's without the number of its window, and whether key is one: for such
// a key the store appends the window's beginning in decimal Unix seconds.
func RatelimitKey(key []byte) (stem []byte, plain bool) {
	if len(key) == 0 || key[0] != ratelimitMark {
		return nil, false
	}
	return key[1:], true
}

// FitsRatelimit reports whether envoyproxy/ratelimit could count the rule: one fixed window of one unit, always charged.
func (r *Rule) FitsRatelimit() bool { return len(r.Limits) == 1 && r.Limits[0].fitsRatelimit(r.Charge) }

func (l *Limit) fitsRatelimit(c Charge) bool {
	return l.Algorithm == FixedWindow && l.Multiplier == 1 && c.Always(l)
}

const (
	// maxLiteral is the longest part, in bytes, that a key holds as it is; longer ones are hashed.
	maxLiteral = 128
	// maxKey is the longest key, in bytes; of a longer one only its hash is used, so that no request makes a key long.
	// Of envoyproxy/ratelimit's keys that is the stem behind the prefix.
	maxKey = 1024
)

// appendPart writes a part of a key: a short one as its length, a colon and its bytes; a long one as '#' and 43
// characters of its SHA-256. No two lists of parts give the same bytes: lengths begin with a digit, and each form has
// its end.
func appendPart(dst []byte, part string) []byte {
	if len(part) > maxLiteral {
		sum := sumOf(part)
		return base64.RawURLEncoding.AppendEncode(append(dst, '#'), sum[:])
	}
	dst = strconv.AppendUint(dst, uint64(len(part)), 10)
	dst = append(dst, ':')
	return append(dst, part...)
}

// sumOf returns the SHA-256 of a text, piece by piece: a conversion would copy all of it to the heap.
func sumOf(text string) (sum [sha256.Size]byte) {
	hash, piece := sha256.New(), [1024]byte{}
	for n := 0; text != ""; text = text[n:] {
		n = copy(piece[:], text)
		hash.Write(piece[:n])
	}
	hash.Sum(sum[:0])
	return sum
}

// AppendKey appends the key under which a descriptor's hits are counted: the configuration's prefix if it has one, the
// domain, then each entry's key and value, or the pattern that the value shares a count with. user=ann in domain shop
// gives 4:shop4:user3:ann. Different parts never make the same key, whatever bytes they hold (where parts of over 128
// bytes or keys of over 1 KiB are hashed: up to a collision of SHA-256). It allocates only to grow dst.
//
// Where the key is to be envoyproxy/ratelimit's, it is as [RatelimitKey] describes it: shop_user_ann_ after a zero byte.
// One of over 1 KiB, which that program would write as it is, is hashed: it is weir's alone.
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

// appendRatelimitKey appends a key of envoyproxy/ratelimit's. A long one becomes ##HASH_: others have three '_' or more.
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
