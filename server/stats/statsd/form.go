package statsd

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Form says how a statistic of a name is written: what stands before its value, and after its kind.
type Form func(name string) (begin, end string)

// Plain is the form of envoyproxy/ratelimit: tags are part of the name, as in name.__env=prod.
func Plain(tags map[string]string) Form {
	var all strings.Builder
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if key != "" && tags[key] != "" {
			all.WriteString(".__" + clean.Replace(key) + "=" + strings.ReplaceAll(clean.Replace(tags[key]), ".", "_"))
		}
	}
	end := all.String()
	return func(name string) (string, string) { return name + end, "" }
}

// clean takes out what separates in statsd's lines.
var clean = strings.NewReplacer(":", "_", "|", "_", "\n", "_", "\r", "_")

// Tagged is the form of DogStatsD. Tags come in this order: those of all statistics, those of the first mogrifier that
// matches the name.
func Tagged(tags []string, mogrifiers []Mogrifier) Form {
	return func(name string) (string, string) {
		all := slices.Clone(tags)
		for i := range mogrifiers {
			if renamed, own, matches := mogrifiers[i].apply(name); matches {
				name, all = renamed, append(all, own...)
				break
			}
		}
		if len(all) == 0 {
			return name, ""
		}
		return name, "|#" + strings.Join(all, ",")
	}
}

// Tag returns a tag of DogStatsD, as key:value.
func Tag(key, value string) string { return cleanTag.Replace(key) + ":" + cleanTag.Replace(value) }

var cleanTag = strings.NewReplacer("|", "_", ",", "_", "\n", "_", "\r", "_")

// Mogrifier takes tags out of names. Make one with NewMogrifier.
type Mogrifier struct {
	pattern *regexp.Regexp
	name    string
	keys    []string // of tags, sorted
	values  []string
}

// NewMogrifier makes a mogrifier of names that match a pattern. In the name that they get, and in the values of tags, $1
// stands for what the pattern's first group matches. Its error says which of the parts is wrong.
func NewMogrifier(pattern, name string, tags map[string]string) (Mogrifier, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return Mogrifier{}, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	m := Mogrifier{pattern: compiled, name: name, keys: slices.Sorted(maps.Keys(tags))}
	for _, key := range m.keys {
		m.values = append(m.values, tags[key])
	}
	for _, template := range append([]string{name}, m.values...) {
		for _, group := range groups.FindAllString(template, -1) {
			if n, err := strconv.Atoi(group[1:]); err != nil || n > compiled.NumSubexp() {
				return Mogrifier{}, fmt.Errorf("%q: the pattern %q has no group %s", template, pattern, group)
			}
		}
	}
	return m, nil
}

var groups = regexp.MustCompile(`\$\d+`)

// apply returns the name that a statistic gets, and its tags, if the mogrifier matches it.
func (m *Mogrifier) apply(name string) (renamed string, tags []string, matches bool) {
	found := m.pattern.FindStringSubmatch(name)
	if found == nil {
		return "", nil, false
	}
	fill := func(template string) string {
		return groups.ReplaceAllStringFunc(template, func(group string) string {
			n, _ := strconv.Atoi(group[1:]) // NewMogrifier has checked it
			return found[n]
		})
	}
	for i, key := range m.keys {
		tags = append(tags, Tag(key, fill(m.values[i])))
	}
	return cmp.Or(clean.Replace(fill(m.name)), name), tags, true
}
