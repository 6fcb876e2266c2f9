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

// LastGood is what a configuration in force was made of: the last good form of each domain. It is immutable. Make one
// with [NewLastGood]; the zero value is that of zero [Options].
type LastGood struct {
	options  Options
	domains  map[string]*domainVersion // nil before anything is in force
	broken   []string                  // domains that files name, but that never had a good form; sorted
	domainOf map[string]string         // the domain of each file that is there, as it was last known
}

// domainVersion is a domain at one state of its files. Configurations share it, so its tree and rules never change.
type domainVersion struct {
	domain *descriptors.Domain
	files  []parsedFile // in the order of their names
	bad    bool         // one of the files has errors: set only while an update is made
}

// NewLastGood holds nothing yet. All its updates are read with these options.
func NewLastGood(o Options) *LastGood { return &LastGood{options: o} }

// Update is what [LastGood.Update] makes of the files as they are now.
type Update struct {
	// Config is nil if there is nothing to put in force: no domain has ever been good, or errors leave all as it was.
	Config   *descriptors.Config
	LastGood *LastGood // to go on from, once Config is in force
	Kept     []string  // domains that have errors and keep their last good form, sorted
	Unknown  []string  // files with errors whose domain is unknown, sorted
	Problems Problems
	Err      error // of a source: why it cannot read files at all
}

// Update reads the files as they are now, and lets a file that is wrong break no more than its domain. A domain is bad
// if any of its files is: then it keeps its last good form, whole, or is known as broken if it never had one. A file
// that does not parse, or could not be read, belongs to the domain of its last content; one that names another domain and
// is wrong belongs to both. Domains whose files have gone are left out. All files are read again, in the order of the
// bytes of their names: 10,000 rules take about 0.3 s.
//
// Unread says what could not be read: the errors in it name files, or directories with all files below them. One without
// a name, or of ".", may be of any file.
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
	next.keepFormerDomains(g)
	u.Kept = next.keepBad(g)
	if u.Problems.Err() != nil && (next.same(g) || len(next.domains) == 0 && g.domains == nil) {
		return u
	}
	next.build(&u)
	return u
}

// assign assigns a file to a domain, and returns the domain's new version.
func (g *LastGood) assign(file, domain string) *domainVersion {
	if g.domains[domain] == nil {
		g.domains[domain] = &domainVersion{}
	}
	g.domainOf[file] = domain
	return g.domains[domain]
}

// assignUnread marks the domains of the file of that name, or of the files below it, as bad. It reports whether there was one.
func (g *LastGood) assignUnread(name string, before *LastGood) (known bool) {
	for file, domain := range before.domainOf {
		if name != "" && name != "." && !strings.HasPrefix(file+"/", name+"/") {
			continue
		}
		known = true
		if _, there := g.domainOf[file]; !there {
			g.assign(file, domain).bad = true
		}
	}
	return known
}

// keepFormerDomains keeps the old domain of a file that now names a bad one: nobody has deleted the old one.
func (g *LastGood) keepFormerDomains(before *LastGood) {
	for file, domain := range before.domainOf {
		now := g.domains[g.domainOf[file]]
		if now != nil && now.bad && before.domains[domain] != nil {
			former := g.assign(file, domain)
			former.bad = former.bad || former.files == nil
		}
	}
}

// keepBad gives each bad domain its last good form, or makes it known as broken. It returns those kept, sorted.
func (g *LastGood) keepBad(before *LastGood) (kept []string) {
	for _, domain := range slices.Sorted(maps.Keys(g.domains)) {
		last := before.domains[domain]
		switch {
		case !g.domains[domain].bad:
		case last != nil:
			g.domains[domain], kept = last, append(kept, domain)
		default:
			delete(g.domains, domain)
			g.broken = append(g.broken, domain)
		}
	}
	return kept
}

// build makes the update's Config of the last good forms, unless together they are too much.
func (g *LastGood) build(u *Update) {
	all := slices.SortedFunc(maps.Values(g.domains), func(a, b *domainVersion) int {
		return cmp.Or(cmp.Compare(a.files[0].Name, b.files[0].Name), // a kept file's name may be used again
			cmp.Compare(a.domain.Name, b.domain.Name))
	})
	var domains []*descriptors.Domain
	expanded := 0
	for _, form := range all {
		domains = append(domains, form.domain)
		for _, f := range form.files {
			expanded += f.expanded
		}
	}
	if expanded > maxExpanded { // each form was good
		u.Problems = append(u.Problems, Problem{Text: fmt.Sprintf("too much configuration: beside the last good form of %s "+
			"it takes over %d MiB, with its YAML aliases followed", descriptors.Abbreviate(u.Kept...), maxExpanded>>20)})
		return
	}
	u.Config = descriptors.NewConfig(g.options.Keys, domains, g.broken)
}

// same reports whether g and other are made of the same files, so that they make the same configuration.
func (g *LastGood) same(other *LastGood) bool {
	return slices.Equal(g.broken, other.broken) && maps.EqualFunc(g.domains, other.domains, func(a, b *domainVersion) bool {
		return slices.EqualFunc(a.files, b.files, func(a, b parsedFile) bool {
			return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
		})
	})
}

// domainKey is a key domain on a line of its own, as YAML's plain form has it at the top of a file, with what stands behind it.
var domainKey = regexp.MustCompile(`(?m)^["']?domain["']?[ \t]*:([ \t].*)?$`)

// domainLine returns the domain that a file which is not YAML seems to configure, by its last line domain:, or "".
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
