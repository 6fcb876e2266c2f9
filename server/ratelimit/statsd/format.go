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

// Format returns the parts of a statistic's line before its value and after its type.
type Format func(name string) (begin, end string)

// PlainFormat returns the format of envoyproxy/ratelimit: tags are part of the name, as in name.__env=prod.
func PlainFormat(tags map[string]string) Format {
	var end string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if key != "" && tags[key] != "" {
			end += ".__" + sanitizer.Replace(key) + "=" + strings.ReplaceAll(sanitizer.Replace(tags[key]), ".", "_")
		}
	}
	return func(name string) (string, string) { return name + end, "" }
}

// sanitizer replaces the separators of statsd's lines.
var sanitizer = strings.NewReplacer(":", "_", "|", "_", "\n", "_", "\r", "_")

// DogStatsDFormat returns the format of DogStatsD. A line has the common tags, then those of the first mogrifier that
// matches the name.
func DogStatsDFormat(tags []string, mogrifiers []Mogrifier) Format {
	return func(name string) (string, string) {
		all := slices.Clone(tags)
		for _, m := range mogrifiers {
			if match := m.pattern.FindStringSubmatchIndex(name); match != nil {
				for _, key := range slices.Sorted(maps.Keys(m.tags)) {
					all = append(all, Tag(key, m.expand(m.tags[key], name, match)))
				}
				name = cmp.Or(sanitizer.Replace(m.expand(m.name, name, match)), name)
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
func Tag(key, value string) string {
	return tagSanitizer.Replace(key) + ":" + tagSanitizer.Replace(value)
}

var tagSanitizer = strings.NewReplacer("|", "_", ",", "_", "\n", "_", "\r", "_")

// Mogrifier turns parts of a name into tags, as envoyproxy/ratelimit's mogrifiers do. Make one with NewMogrifier.
type Mogrifier struct {
	pattern *regexp.Regexp
	name    string            // a template, as in package regexp
	tags    map[string]string // values are templates
}

// NewMogrifier makes a mogrifier for names that match a pattern. In the new name and in tag values, $1 stands for the
// pattern's first group. Its error names the wrong part.
func NewMogrifier(pattern, name string, tags map[string]string) (Mogrifier, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return Mogrifier{}, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	template := func(text string) string {
		return groups.ReplaceAllStringFunc(text, func(group string) string {
			switch n, notNumber := strconv.Atoi(group[1:]); {
			case group == "$":
				return "$$"
			case notNumber != nil || n > compiled.NumSubexp():
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

func (m *Mogrifier) expand(template, name string, match []int) string {
	return string(m.pattern.ExpandString(nil, template, name, match))
}
