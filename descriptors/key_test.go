package descriptors

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestKeysMatchTheDocument(t *testing.T) {
	short, long := strings.Repeat("v", 128), strings.Repeat("v", 129)
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	many := func(last string) Descriptor { // makes a key of 978 bytes and the last value
		return append(slices.Repeat(Descriptor{{"k", strings.Repeat("v", 90)}}, 10), Entry{"k", last}, Entry{"x", "y"})
	}
	whole := "4:shop" + strings.Repeat("1:k90:"+strings.Repeat("v", 90), 10)
	for want, d := range map[string]Descriptor{
		"4:shop4:user3:ann4:path4:/pay":                 {{"user", "ann"}, {"path", "/pay"}},
		"4:shop1:k128:" + short:                         {{"k", short}},
		"4:shop1:k#" + hash(long):                       {{"k", long}},
		whole + "1:k46:" + short[:46] + "1:x1:y":        many(short[:46]),
		"##" + hash(whole+"1:k47:"+short[:47]+"1:x1:y"): many(short[:47]), // a request may bring any number of entries
	} {
		if got := string(Match{}.AppendKey([]byte("in front "), "shop", d)); got != "in front "+want {
			t.Errorf("the key of %v is %s, want %s", d, got, want)
		}
	}
}

// checkKey fails unless a descriptor's key reads back as its prefix, if there is one, its domain and entries. As the key
// alone says what it was made of, no two descriptors can have the same, nor can two fleets in one store.
func checkKey(t *testing.T, prefix, domain string, d Descriptor) {
	t.Helper()
	want := []string{prefix, domain}
	if prefix == "" {
		want = want[1:] // which makes the number of parts odd
	}
	for _, e := range d {
		want = append(want, e.Key, e.Value)
	}
	got, sound := parseParts(string(Match{keys: Keys{Prefix: prefix}}.AppendKey(nil, domain, d)))
	if !sound || len(got) != len(want) {
		t.Fatalf("the key of %.200q does not read back: %+v", want, got)
	}
	for i := range want {
		if len(want[i]) > maxLiteral {
			sum := sha256.Sum256([]byte(want[i]))
			want[i] = "#" + base64.RawURLEncoding.EncodeToString(sum[:])
		}
		if got[i] != want[i] {
			t.Fatalf("part %d reads back as %.200q, want %.200q", i, got[i], want[i])
		}
	}
}

// parseParts returns a key's parts, a hashed one as # and its hash, and false where it can be read in no or another way.
func parseParts(key string) (parts []string, sound bool) {
	hashSize := 1 + base64.RawURLEncoding.EncodedLen(sha256.Size)
	for key != "" {
		if key[0] == '#' && len(key) >= hashSize {
			parts, key = append(parts, key[:hashSize]), key[hashSize:]
			continue
		}
		digits, rest, found := strings.Cut(key, ":")
		n, err := strconv.ParseUint(digits, 10, 16)
		if !found || err != nil || n > maxLiteral || n > uint64(len(rest)) || len(digits) > 1 && digits[0] == '0' {
			return nil, false
		}
		parts, key = append(parts, rest[:n]), rest[n:]
	}
	return parts, true
}

// awkward are texts that keys made in other ways have stumbled over.
var awkward = []string{
	"", "a", "_", "a_b", "b_c", "{", "}", "{a}", ":", "1:", "1:a", "4:user", "%", "%25", "#", "/", "=", "\x00", "\x00\x00",
	"\xff", "\xc3\x28", "0", "10:", "12", "é", "\n", strings.Repeat("v", 128), strings.Repeat("v", 129),
	"#" + strings.Repeat("A", 43), strings.Repeat("9:", 60), strings.Repeat("x", 100<<10),
}

func TestAwkwardDescriptorsReadBackFromTheirKeys(t *testing.T) {
	for _, a := range awkward {
		for _, b := range awkward[:len(awkward)-1] {
			checkKey(t, b, a, nil)
			checkKey(t, "", a, Descriptor{{b, a}, {a, b}})
			checkKey(t, a, "d", Descriptor{{"k", a}, {b, "l"}})
		}
	}
}

func FuzzKeyIsInjective(f *testing.F) {
	for i, v := range awkward {
		f.Add(v, v, awkward[(i+1)%len(awkward)], awkward[(i+2)%len(awkward)], v, uint8(i))
	}
	f.Add("shop", "user", "ann", "path", "/pay", uint8(2))
	f.Fuzz(func(t *testing.T, domain, k1, v1, k2, v2 string, entries uint8) {
		d := Descriptor{{k1, v1}, {k2, v2}, {v1, k2}}
		checkKey(t, "", domain, d[:int(entries)%(len(d)+1)])
		checkKey(t, v2, domain, d[:int(entries)%len(d)]) // one more part would make a key so long that it is hashed whole
	})
}
