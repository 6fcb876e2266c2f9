package yaml

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// LastGood has the last valid version of each domain: the one without errors that is in force. It is immutable. Make
// one with [NewLastGood]; the zero value has zero [Options].
type LastGood struct {
	options  Options
	domains  map[string]*domainVersion // nil before the first configuration
	broken   []string                  // sorted domains that files name, but that never had a valid version
	domainOf map[string]string         // by file, its last known domain
}

// domainVersion is a domain with one version of its files. Configurations share it, so its tree and rules never change.
type domainVersion struct {
	domain *descriptors.Domain
	files  []parsedFile // in the order of their names
	bad    bool         // a file has errors; only used while Update runs
}

// NewLastGood returns a LastGood without domains. The options are those of all its updates.
func NewLastGood(o Options) *LastGood { return &LastGood{options: o} }

// Update is the result of [LastGood.Update].
type Update struct {
	// Config is nil if there is nothing to apply: no domain has ever been good, or the domains in force do not change.
	Config   *descriptors.Config
	LastGood *LastGood // for the next update, if Config was applied
	Restored []string  // domains with errors that were restored to their last valid version, sorted
	Unknown  []string  // files with errors whose domain is unknown, sorted
	Problems Problems
	Err      error // set by a source that cannot read files at all
}

// Update parses the present files. An error in a file affects only the file's domain: if a file of a domain has errors,
// the domain keeps its last valid version, as a whole; if it never had one, it is broken. A file that does not parse,
// or could not be read, belongs to its last known domain; a file with errors that names another domain than before
// belongs to both. Domains without files are removed. Update parses all files again, in the order of their names:
// 10,000 rules take about 0.3 s.
//
// unread has an error for each file that could not be read, or for a directory with all files below it. An error
// without a name, or with ".", may be about any file.
func (g *LastGood) Update(files []File, unread Problems) Update {
	p := newParser(g.options)
	for _, f := range slices.SortedStableFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) }) {
		p.parseFile(f)
	}
	p.finish()
	next := &LastGood{options: g.options, domains: make(map[string]*domainVersion), domainOf: make(map[string]string)}
	u := Update{LastGood: next, Problems: slices.Concat(unread, p.problems)}
	for _, f := range p.parsed {
		domain := cmp.Or(f.domain, g.domainOf[f.Name])
		if domain == "" {
			domain = domainLine(f.Data)
		}
		if domain == "" {
			u.Unknown = append(u.Unknown, f.Name)
			continue
		}
		now := next.assign(f.Name, domain)
		now.domain, now.files, now.bad = p.domains[domain], append(now.files, f), now.bad || f.bad
	}
	for _, problem := range unread {
		if !problem.Warning && !next.assignUnread(problem.File, g) {
			u.Unknown = append(u.Unknown, cmp.Or(problem.File, "what has no name"))
		}
	}
	slices.Sort(u.Unknown)
	next.keepOldDomains(g)
	u.Restored = next.restoreBad(g)
	if u.Problems.Err() != nil && (next.same(g) || len(next.domains) == 0 && g.domains == nil) {
		return u
	}
	next.build(&u)
	return u
}

// assign assigns a file to a domain, and returns the domain.
func (g *LastGood) assign(file, domain string) *domainVersion {
	if g.domains[domain] == nil {
		g.domains[domain] = &domainVersion{}
	}
	g.domainOf[file] = domain
	return g.domains[domain]
}

// assignUnread marks the domains of an unread file, or of the files below an unread directory, as bad. It reports
// whether it found any.
func (g *LastGood) assignUnread(name string, before *LastGood) (found bool) {
	for file, domain := range before.domainOf {
		if name != "" && name != "." && !strings.HasPrefix(file+"/", name+"/") {
			continue
		}
		found = true
		if _, ok := g.domainOf[file]; !ok {
			g.assign(file, domain).bad = true
		}
	}
	return found
}

// keepOldDomains keeps the old domain of a file that now names a bad one, as the old domain was not deleted on
// purpose.
func (g *LastGood) keepOldDomains(before *LastGood) {
	for file, domain := range before.domainOf {
		now := g.domains[g.domainOf[file]]
		if now != nil && now.bad && before.domains[domain] != nil {
			old := g.assign(file, domain)
			old.bad = old.bad || old.files == nil
		}
	}
}

// restoreBad replaces each bad domain by its last valid version, or makes it broken. It returns the replaced ones,
// sorted.
func (g *LastGood) restoreBad(before *LastGood) (restored []string) {
	for _, domain := range slices.Sorted(maps.Keys(g.domains)) {
		last := before.domains[domain]
		switch {
		case !g.domains[domain].bad:
		case last != nil:
			g.domains[domain], restored = last, append(restored, domain)
		default:
			delete(g.domains, domain)
			g.broken = append(g.broken, domain)
		}
	}
	return restored
}

// build makes the update's Config from the last valid versions, unless together they are too large.
func (g *LastGood) build(u *Update) {
	all := slices.SortedFunc(maps.Values(g.domains), func(a, b *domainVersion) int {
		return cmp.Or(cmp.Compare(a.files[0].Name, b.files[0].Name), // another domain may now have a file of that name
			cmp.Compare(a.domain.Name, b.domain.Name))
	})
	var domains []*descriptors.Domain
	expanded := 0
	for _, version := range all {
		domains = append(domains, version.domain)
		for _, f := range version.files {
			expanded += f.expanded
		}
	}
	if expanded > maxExpanded {
		u.Problems = append(u.Problems, Problem{Text: fmt.Sprintf("too much configuration: beside the last valid version of %s "+
			"it takes over %d MiB, with its YAML aliases followed", descriptors.Abbreviate(u.Restored...), maxExpanded>>20)})
		return
	}
	u.Config = descriptors.NewConfig(g.options.Keys, domains, g.broken)
}

// same reports whether g and other have the same files, and so the same configuration.
func (g *LastGood) same(other *LastGood) bool {
	return slices.Equal(g.broken, other.broken) && maps.EqualFunc(g.domains, other.domains, func(a, b *domainVersion) bool {
		return slices.EqualFunc(a.files, b.files, func(a, b parsedFile) bool {
			return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
		})
	})
}

// domainKey matches a line with the key domain at the top level of a file, and its value.
var domainKey = regexp.MustCompile(`(?m)^["']?domain["']?[ \t]*:([ \t].*)?$`)

// domainLine returns the domain of a file that is not valid YAML, from its last line domain:, or "".
func domainLine(data []byte) string {
	var value []byte
	for _, found := range domainKey.FindAllSubmatch(bytes.TrimPrefix(data, []byte("\ufeff")), -1) {
		value = found[1]
	}
	var n yaml.Node
	if len(value) == 0 || len(value) > maxName || yaml.Unmarshal(value, &n) != nil || len(n.Content) == 0 ||
		n.Content[0].Kind != yaml.ScalarNode || isNull(n.Content[0]) {
		return ""
	}
	return n.Content[0].Value
}
