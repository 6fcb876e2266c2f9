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
	var end string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if key != "" && tags[key] != "" {
			end += ".__" + clean.Replace(key) + "=" + strings.ReplaceAll(clean.Replace(tags[key]), ".", "_")
		}
	}
	return func(name string) (string, string) { return name + end, "" }
}

// clean takes out what separates in statsd's lines.
var clean = strings.NewReplacer(":", "_", "|", "_", "\n", "_", "\r", "_")

// Tagged is the form of DogStatsD. Tags come in this order: those of all statistics, those of the first mogrifier that
// matches the name.
func Tagged(tags []string, mogrifiers []Mogrifier) Form {
	return func(name string) (string, string) {
		all := slices.Clone(tags)
		for _, m := range mogrifiers {
			if found := m.pattern.FindStringSubmatchIndex(name); found != nil {
				for _, key := range slices.Sorted(maps.Keys(m.tags)) {
					all = append(all, Tag(key, m.expand(m.tags[key], name, found)))
				}
				name = cmp.Or(clean.Replace(m.expand(m.name, name, found)), name)
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
	name    string            // a template, as regexp has it
	tags    map[string]string // of templates
}

// NewMogrifier makes a mogrifier of names that match a pattern. In the name that they get, and in the values of tags, $1
// stands for what the pattern's first group matches. Its error says which of the parts is wrong.
func NewMogrifier(pattern, name string, tags map[string]string) (Mogrifier, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return Mogrifier{}, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	template := func(text string) string {
		return groups.ReplaceAllStringFunc(text, func(group string) string {
			switch n, is := strconv.Atoi(group[1:]); {
			case group == "$":
				return "$$"
			case is != nil || n > compiled.NumSubexp():
				err = cmp.Or(err, fmt.Errorf("%q: the pattern %q has no group %s", text, pattern, group))
			}
			return "${" + group[1:] + "}"
		})
	}
	m := Mogrifier{pattern: compiled, name: template(name), tags: make(map[string]string)}
	for key, value := range tags {
		m.tags[key] = template(value)
	}
	return m, err
}

var groups = regexp.MustCompile(`\$\d*`)

func (m *Mogrifier) expand(template, name string, found []int) string {
	return string(m.pattern.ExpandString(nil, template, name, found))
}
