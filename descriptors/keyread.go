package descriptors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// Counted is what a counter's key tells of what it counts.
type Counted struct {
	Domain string
	// Descriptor has a pattern in place of a value where the values of the pattern share one count. A part that the key
	// holds as a hash is "#" and the hash. It is nil where the key is envoyproxy/ratelimit's, and no rule's.
	Descriptor Descriptor
	Rule       *Rule // that counts under this key; nil if the configuration has none that does
	Hashed     bool  // a part of the descriptor is a hash
	// Ambiguous means that another descriptor that rules count has the same key, as envoyproxy/ratelimit's keys allow. Its
	// hits are counted there, too.
	Ambiguous bool
}

// Why a key is not read.
var (
	// ErrOtherKey means that a configuration with this prefix makes no such key.
	ErrOtherKey = errors.New("the key is not one of this configuration's")
	// ErrUntold means that the key is known by its hash alone, or that it does not tell which rule counts under it.
	ErrUntold = errors.New("the key does not tell what it counts")
)

// ReadKey reads a key that [Match.AppendKey] wrote, for this configuration or a former one. Its errors are ErrOtherKey
// and ErrUntold. What a limit that a request brought with it counts has the same key as the rule's, if one matches the
// descriptor and lets no values share a count.
func (c *Config) ReadKey(key []byte) (Counted, error) {
	if stem, plain := PlainStem(key); plain {
		return c.readPlain(key, string(stem))
	}
	parts, hashed, err := parseParts(string(key))
	if err == nil && c.keys.Prefix != "" {
		if !parts[0].is(c.keys.Prefix) {
			return Counted{}, ErrOtherKey
		}
		parts = parts[1:]
	}
	switch {
	case err != nil:
		return Counted{}, err
	case len(parts)%2 == 0 || len(parts) < 3:
		return Counted{}, ErrOtherKey
	}
	read := Counted{Domain: c.domainOf(parts[0]), Descriptor: make(Descriptor, len(parts)/2), Hashed: hashed}
	for i := range read.Descriptor {
		read.Descriptor[i] = Entry{Key: parts[1+2*i].text, Value: parts[2+2*i].text}
	}
	read.Rule, err = c.ruleOf(read.Domain, parts[1:])
	return read, err
}

// part is a part of a key.
type part struct {
	text   string // if it is hashed, # and the hash
	hashed bool
}

// hashSize is the length of a hashed part.
var hashSize = 1 + base64.RawURLEncoding.EncodedLen(sha256.Size)

// parseParts returns a key's parts, at least one, and reports whether one of them is hashed.
func parseParts(key string) (parts []part, hashed bool, err error) {
	if strings.HasPrefix(key, "##") && len(key) == hashSize+1 {
		return nil, true, ErrUntold
	}
	if len(key) > maxKey {
		return nil, false, ErrOtherKey
	}
	for key != "" {
		if key[0] == '#' {
			if len(key) < hashSize {
				return nil, false, ErrOtherKey
			}
			parts, key, hashed = append(parts, part{key[:hashSize], true}), key[hashSize:], true
			continue
		}
		digits, rest, found := strings.Cut(key, ":")
		n, err := strconv.ParseUint(digits, 10, 16)
		if !found || err != nil || n > maxLiteral || n > uint64(len(rest)) || len(digits) > 1 && digits[0] == '0' {
			return nil, false, ErrOtherKey
		}
		parts, key = append(parts, part{text: rest[:n]}), rest[n:]
	}
	if len(parts) == 0 {
		return nil, false, ErrOtherKey
	}
	return parts, hashed, nil
}

// is reports whether the part is a text's.
func (p part) is(text string) bool {
	if !p.hashed {
		return p.text == text
	}
	return len(text) > maxLiteral && p.text == string(appendPart(nil, text))
}

// fits reports whether what the part stands for fits a pattern, as far as that is known.
func (p part) fits(pattern string) (fits, known bool) {
	switch {
	case !p.hashed:
		return glob(pattern, p.text), true
	case !strings.Contains(pattern, "*"):
		return p.is(pattern), true
	}
	fits = strings.Trim(pattern, "*") == ""
	return fits, fits || p.is(pattern)
}

// domainOf returns the configured domain that a part names, or its text.
func (c *Config) domainOf(p part) string {
	if p.hashed {
		for name := range c.domains {
			if p.is(name) {
				return name
			}
		}
	}
	return p.text
}

// ruleOf returns the rule that counts under a key with these parts of its entries, nil if none does. Its error is ErrUntold.
func (c *Config) ruleOf(domain string, parts []part) (*Rule, error) {
	configured := c.domains[domain]
	if configured == nil {
		return nil, nil
	}
	n, known := &configured.Root, true
	for i := 0; i < len(parts) && n != nil; i += 2 {
		key, value := parts[i], parts[i+1]
		if !key.hashed && !value.hashed {
			n = n.step(&Entry{Key: key.text, Value: value.text})
		} else if n, known = n.stepHashed(key, value); !known {
			return nil, ErrUntold
		}
	}
	if n == nil || n.Rule == nil || c.keys.Format == KeysOfRatelimit && n.Rule.Plain() {
		return nil, nil
	}
	for i := range len(parts) / 2 {
		if shared := n.Rule.Shared(i); shared != "" && !parts[2*i+1].is(shared) {
			return nil, nil
		}
	}
	return n.Rule, nil
}

// stepHashed is step for an entry with a hashed part. It reports false where it cannot know whether the entry fits a
// pattern.
func (n *Node) stepHashed(key, value part) (next *Node, known bool) {
	for id, child := range n.exact {
		if key.is(id.Key) && value.is(id.Value) {
			return child, true
		}
	}
	for _, p := range n.patterns.all {
		keyFits, keyKnown := key.fits(p.Key)
		valueFits, valueKnown := value.fits(cmp.Or(p.Value, "*")) // without one, any value fits
		switch {
		case keyKnown && !keyFits, valueKnown && !valueFits:
		case keyKnown && valueKnown:
			return p.next, true
		default:
			return nil, false
		}
	}
	for name, child := range n.byKey {
		if key.is(name) {
			return child, true
		}
	}
	return nil, true
}

// maxReadings is how many entries are tried to read one of envoyproxy/ratelimit's keys.
const maxReadings = 2000

// plainReading is an attempt to read such a key: it tries each way to cut the key into entries that lead to a rule. The
// one with the most entries is the most likely: the parts of the others hold what looks like entries.
type plainReading struct {
	config *Config
	key    []byte
	domain string
	best   Counted
	tried  int
}

// readPlain reads a key of envoyproxy/ratelimit's with its stem.
func (c *Config) readPlain(key []byte, stem string) (Counted, error) {
	rest, own := strings.CutPrefix(stem, c.keys.Prefix)
	if !own || c.keys.Format != KeysOfRatelimit {
		return Counted{}, ErrOtherKey
	}
	if len(rest) > maxKey || strings.HasPrefix(rest, "##") && strings.IndexByte(rest, '_') == len(rest)-1 {
		return Counted{}, ErrUntold
	}
	r := &plainReading{config: c, key: key}
	for at := range rest {
		if rest[at] != '_' || c.domains[rest[:at]] == nil {
			continue
		}
		if r.domain = rest[:at]; r.best.Rule == nil {
			r.best.Domain = r.domain
		}
		r.walk(&c.domains[r.domain].Root, rest[at+1:], nil)
	}
	switch {
	case r.best.Domain == "":
		return Counted{}, ErrOtherKey
	case r.best.Rule == nil && r.tried > maxReadings:
		return r.best, ErrUntold
	}
	r.best.Ambiguous = r.best.Ambiguous || r.tried > maxReadings
	return r.best, nil
}

// walk tries all entries that lead on from n.
func (r *plainReading) walk(n *Node, rest string, d Descriptor) {
	if rest == "" {
		r.judge(n, d)
		return
	}
	for i := 1; i < len(rest) && r.tried <= maxReadings; i++ {
		if rest[i] != '_' {
			continue
		}
		for j := i + 1; j < len(rest); j++ {
			if rest[j] != '_' {
				continue
			}
			if r.tried++; r.tried > maxReadings {
				return
			}
			e := Entry{Key: rest[:i], Value: rest[i+1 : j]}
			if next := n.step(&e); next != nil {
				r.walk(next, rest[j+1:], append(d[:len(d):len(d)], e))
			}
		}
	}
}

// judge keeps a reading that counts under the key, if it is the best so far.
func (r *plainReading) judge(n *Node, d Descriptor) {
	if n.Rule == nil || len(d) == 0 {
		return
	}
	m := r.config.Match(r.domain, d)
	if !m.plain || !bytes.Equal(m.AppendKey(nil, r.domain, d), r.key) {
		return
	}
	ambiguous := r.best.Rule != nil
	if len(d) > len(r.best.Descriptor) {
		r.best = Counted{Domain: r.domain, Descriptor: d, Rule: m.Rule}
	}
	r.best.Ambiguous = ambiguous
}
