package descriptors

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// maxLiteral is the longest part that a key holds as it is; longer ones are hashed, so that no request can make a
// key long.
const maxLiteral = 128

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

// AppendKey appends the key under which a descriptor's hits are counted: its domain, then each entry's key and value.
// user=ann, path=/pay in domain shop gives 4:shop4:user3:ann4:path4:/pay. Different descriptors never share a key,
// whatever bytes they hold (long parts: up to a collision of SHA-256). It allocates only to grow dst and to hash parts
// of over 128 bytes.
func (m Match) AppendKey(dst []byte, domain string, d Descriptor) []byte {
	dst = appendPart(dst, domain)
	for i := range d {
		dst = appendPart(dst, d[i].Key)
		dst = appendPart(dst, d[i].Value)
	}
	return dst
}
