package descriptors

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

const (
	// maxLiteral is the longest part, in bytes, that a key holds as it is; longer ones are hashed.
	maxLiteral = 128
	// maxKey is the longest key, in bytes; of a longer one only its hash is used, so that no request makes a key long.
	maxKey = 1024
)

// appendPart writes one part of a key so that no two lists of parts give the same bytes: a short part as its length,
// a colon and its bytes; a long one as '#' and 43 characters of its SHA-256. A length starts with a digit, so the two
// forms cannot meet, and each says where it ends.
func appendPart(dst []byte, part string) []byte {
	if len(part) > maxLiteral {
		sum := sha256.Sum256([]byte(part))
		return base64.RawURLEncoding.AppendEncode(append(dst, '#'), sum[:])
	}
	dst = strconv.AppendUint(dst, uint64(len(part)), 10)
	dst = append(dst, ':')
	return append(dst, part...)
}

// AppendKey appends the key under which a descriptor's hits are counted: the configuration's prefix if it has one, the
// domain, then each entry's key and value, or the pattern that the value shares a count with. user=ann in domain shop
// gives 4:shop4:user3:ann. Different parts never make the same key, whatever bytes they hold (where parts of over 128
// bytes or keys of over 1 KiB are hashed: up to a collision of SHA-256). It allocates only to grow dst and to hash.
func (m Match) AppendKey(dst []byte, domain string, d Descriptor) []byte {
	begin := len(dst)
	if m.prefix != "" {
		dst = appendPart(dst, m.prefix)
	}
	dst = appendPart(dst, domain)
	for i := range d {
		dst = appendPart(dst, d[i].Key)
		dst = appendPart(dst, m.Rule.counted(d, i))
	}
	if len(dst)-begin > maxKey {
		sum := sha256.Sum256(dst[begin:])
		dst = base64.RawURLEncoding.AppendEncode(append(dst[:begin], "##"...), sum[:]) // no part begins with two
	}
	return dst
}
