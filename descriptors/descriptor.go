package descriptors

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Entry is one key and value of a descriptor. The value may be empty, but not the key.
type Entry struct{ Key, Value string }

// String returns the entry for people: user=ann.
func (e Entry) String() string { return e.Key + "=" + e.Value }

// Descriptor is an ordered list of entries, as Envoy sends it.
type Descriptor []Entry

// String returns a descriptor in the format of weir call: user=ann,path=/pay. It escapes a comma as \, and a backslash
// as \\, so [ParseDescriptor] returns the same descriptor unless a key has an =.
func (d Descriptor) String() string {
	return string(d.AppendShort(nil, 1<<30))
}

var (
	entryUnescaper = strings.NewReplacer(`\\`, `\`, `\,`, `,`)
	escapedEntry   = regexp.MustCompile(`(?:\\[\\,]|[^,])*`)
)

// ParseDescriptor parses the format of [Descriptor.String]: entries key=value, separated by commas. The first = of an
// entry separates key and value, \, is a comma and \\ a backslash; any other backslash stands for itself.
func ParseDescriptor(text string) (Descriptor, error) {
	if text == "" {
		return nil, errors.New("it is empty: write key=value,key=value")
	}
	var d Descriptor
	for _, entry := range escapedEntry.FindAllString(text, -1) {
		key, value, found := strings.Cut(entry, "=")
		if !found {
			return nil, fmt.Errorf(`%q in %q has no "=": write key=value, and a comma inside a value as \,`, entry, text)
		}
		if key == "" {
			return nil, fmt.Errorf(`%q in %q has no key before its "="`, entry, text)
		}
		d = append(d, Entry{Key: entryUnescaper.Replace(key), Value: entryUnescaper.Replace(value)})
	}
	return d, nil
}

// SplitRequest splits the text of a request, such as user=ann + path=/x, into those of its descriptors, for
// [ParseDescriptor].
func SplitRequest(text string) []string {
	return strings.Split(separator.ReplaceAllString(text, "\x00$1"), "\x00")
}

// separator matches the separator of descriptors: a plus before a key.
var separator = regexp.MustCompile(` \+ ([^,= ]+=)`)
