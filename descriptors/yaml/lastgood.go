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
	domains  map[string]*form  // nil before anything is in force
	broken   []string          // domains that files name, but that never had a good form; sorted
	domainOf map[string]string // the domain of each file that is there, as it was last known
}

// form is a domain as its files have it. Configurations share it: neither its tree nor its rules ever change.
type form struct {
	domain *descriptors.Domain
	files  []parsedFile // in the order of their names
	bad    bool         // a file has errors: only while an update is made
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
func (h *LastGood) Update(files []File, unread Problems) Update {
	p := newParser(h.options)
	for _, f := range slices.SortedStableFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) }) {
		p.parseFile(f)
	}
	p.finish()
	next := &LastGood{options: h.options, domains: make(map[string]*form), domainOf: make(map[string]string)}
	r := Update{LastGood: next, Problems: slices.Concat(unread, p.problems)}
	for _, f := range p.parsed {
		domain := cmp.Or(f.domain, h.domainOf[f.Name])
		if domain == "" {
			domain = domainLine(f.Data)
		}
		if domain == "" {
			r.Unknown = append(r.Unknown, f.Name)
			continue
		}
		now := next.claim(f.Name, domain)
		now.domain, now.files, now.bad = p.domains[domain], append(now.files, f), now.bad || f.bad
	}
	for _, u := range unread {
		if !u.Warning && !next.claimUnread(u.File, h) {
			r.Unknown = append(r.Unknown, cmp.Or(u.File, "what has no name"))
		}
	}
	slices.Sort(r.Unknown)
	next.claimFormer(h)
	r.Kept = next.keepBad(h)
	if r.Problems.Err() != nil && (next.same(h) || len(next.domains) == 0 && h.domains == nil) {
		return r
	}
	next.build(&r)
	return r
}

// claim makes a file one of a domain's, and returns the form that the domain has by now.
func (h *LastGood) claim(file, domain string) *form {
	if h.domains[domain] == nil {
		h.domains[domain] = &form{}
	}
	h.domainOf[file] = domain
	return h.domains[domain]
}

// claimUnread breaks the domains of the files of that name, or below it. It reports whether there was one.
func (h *LastGood) claimUnread(name string, before *LastGood) (known bool) {
	for file, domain := range before.domainOf {
		if name != "" && name != "." && !strings.HasPrefix(file+"/", name+"/") {
			continue
		}
		known = true
		if _, there := h.domainOf[file]; !there {
			h.claim(file, domain).bad = true
		}
	}
	return known
}

// claimFormer keeps the former domain of a file that names a bad one now: nobody has deleted it.
func (h *LastGood) claimFormer(before *LastGood) {
	for file, domain := range before.domainOf {
		now := h.domains[h.domainOf[file]]
		if now != nil && now.bad && before.domains[domain] != nil {
			former := h.claim(file, domain)
			former.bad = former.bad || former.files == nil
		}
	}
}

// keepBad gives each bad domain its last good form, or makes it known as broken. It returns those kept, sorted.
func (h *LastGood) keepBad(before *LastGood) (kept []string) {
	for _, domain := range slices.Sorted(maps.Keys(h.domains)) {
		last := before.domains[domain]
		switch {
		case !h.domains[domain].bad:
		case last != nil:
			h.domains[domain], kept = last, append(kept, domain)
		default:
			delete(h.domains, domain)
			h.broken = append(h.broken, domain)
		}
	}
	return kept
}

// build makes the update's Config of the last good forms, unless together they are too much.
func (h *LastGood) build(r *Update) {
	all := slices.SortedFunc(maps.Values(h.domains), func(a, b *form) int {
		return cmp.Or(cmp.Compare(a.files[0].Name, b.files[0].Name), // a kept file's name may be used again
			cmp.Compare(a.domain.Name, b.domain.Name))
	})
	var domains []*descriptors.Domain
	expanded := 0
	for _, v := range all {
		domains = append(domains, v.domain)
		for _, f := range v.files {
			expanded += f.expanded
		}
	}
	if expanded > maxExpanded { // each form was good
		r.Problems = append(r.Problems, Problem{Text: fmt.Sprintf("too much configuration: beside the last good form of %s "+
			"it takes over %d MiB, with its YAML aliases followed", descriptors.Listed(r.Kept), maxExpanded>>20)})
		return
	}
	r.Config = descriptors.NewConfig(h.options.Keys, domains, h.broken)
}

// same reports whether h and g are made of the same files, so that they make the same configuration.
func (h *LastGood) same(g *LastGood) bool {
	return slices.Equal(h.broken, g.broken) && maps.EqualFunc(h.domains, g.domains, func(a, b *form) bool {
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
