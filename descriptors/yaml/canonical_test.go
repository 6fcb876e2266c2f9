package yaml

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// canonical writes a domain of a configuration as the one file that says the same in the plainest way: every text in
// quotes, every default spelt out, no anchor and no merge, and nothing that has no effect.
func canonical(c *descriptors.Config, d *descriptors.Domain) string {
	w := canonicalWriter{passes: make(map[string]int)}
	for i, p := range c.Passes() {
		if p.Domain == d.Name {
			w.passes[p.Path] = i
		}
	}
	top := w.children(&d.Root, "", 0)
	return fmt.Sprintf("domain: %s\nrefund_on_deny: %t\ndescriptors: [\n%s]\n", inQuotes(d.Name), d.Refunds, top.text)
}

type canonicalWriter struct {
	passes map[string]int // the index of each path that passes
}

// written is a descriptor, or several, with what says where it must stand among others, -1 where nothing does, and what
// its rules say about the entries above them.
type written struct {
	text                string
	rule, pass, pattern int // its first rule, what passes first in it, its index among the patterns of its level
	values              []int
	patterns            []string
}

// children writes what may follow n, in an order that gives the same rules, passes and patterns in the same order.
func (w *canonicalWriter) children(n *descriptors.Node, path string, depth int) written {
	var all []*written
	level := written{rule: -1, pass: -1, pattern: -1}
	for id, child := range n.Children() {
		c := w.child(child, id, path, depth)
		if isStarred(id) {
			c.pattern = len(all) // patterns come first
		}
		all = append(all, &c)
	}
	for _, c := range inOrder(all) {
		level.text += strings.Repeat(" ", depth+1) + c.text + ",\n"
		level.rule, level.pass = first(level.rule, c.rule), first(level.pass, c.pass)
		level.knows(c.values, c.patterns)
	}
	return level
}

// knows adds what a rule says about the entries above it, unless that is known.
func (w *written) knows(values []int, patterns []string) {
	if len(w.values) == 0 {
		w.values = values
	}
	if len(w.patterns) == 0 {
		w.patterns = patterns
	}
}

// first is the lower of two places; -1 is none.
func first(a, b int) int {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return min(a, b)
}

// inOrder sorts the descriptors of a level so that none comes before one that must precede it.
func inOrder(all []*written) (sorted []*written) {
	places := []func(*written) int{
		func(w *written) int { return w.rule },
		func(w *written) int { return w.pass },
		func(w *written) int { return w.pattern },
	}
	queues := make([][]*written, len(places))
	for i, place := range places {
		for _, w := range all {
			if place(w) >= 0 {
				queues[i] = append(queues[i], w)
			}
		}
		slices.SortFunc(queues[i], func(a, b *written) int { return place(a) - place(b) })
	}
	leads := func(w *written) bool {
		for i, place := range places {
			if place(w) >= 0 && queues[i][0] != w {
				return false
			}
		}
		return true
	}
	for len(sorted) < len(all) {
		for _, queue := range queues {
			if len(queue) > 0 && leads(queue[0]) {
				next := queue[0]
				for i, place := range places {
					if place(next) >= 0 {
						queues[i] = queues[i][1:]
					}
				}
				sorted = append(sorted, next)
				break
			}
		}
	}
	return sorted
}

// child writes the descriptor of an entry below path, and all below it.
func (w *canonicalWriter) child(n *descriptors.Node, id descriptors.Entry, path string, depth int) written {
	path = strings.TrimPrefix(path+"/"+descriptors.PathSegment(id.Key, id.Value), "/")
	fields := []string{"key: " + inQuotes(id.Key)}
	if id.Value != "" {
		fields = append(fields, "value: "+inQuotes(id.Value))
	}
	c := written{rule: -1, pass: -1, pattern: -1}
	below := w.children(n, path, depth+1)
	if r := n.Rule; r != nil {
		c.rule = r.Number
		detailed := len(r.Values) == depth+1
		if !detailed {
			c.knows(r.Values, nil)
		}
		c.knows(nil, r.Patterns)
		fields = append(fields, fmt.Sprintf("detailed_metric: %t", detailed))
		fields = append(fields, ruleFields(r)...)
	}
	c.knows(below.values, below.patterns)
	if slices.Contains(c.values, depth) {
		fields = append(fields, "value_to_metric: true")
	}
	if depth < len(c.patterns) && c.patterns[depth] != "" {
		fields = append(fields, "share_threshold: true")
	}
	if i, passes := w.passes[path]; passes {
		c.pass = i
	}
	if below.text != "" {
		fields = append(fields, "descriptors: [\n"+below.text+strings.Repeat(" ", depth+1)+"]")
		c.rule, c.pass = first(c.rule, below.rule), first(c.pass, below.pass)
	}
	c.text = "{" + strings.Join(fields, ", ") + "}"
	return c
}

// ruleFields are the keys of a descriptor that only its limits give a meaning.
func ruleFields(r *descriptors.Rule) []string {
	flags := fmt.Sprintf("shadow_mode: %t, quota_mode: %t", r.Shadow, r.Quota)
	fields := []string{flags, "message: " + inQuotes(r.Message)}
	switch r.Charge {
	case descriptors.ChargeAdmitted:
		fields = append(fields, "charge: admitted")
	case descriptors.ChargeAlways:
		fields = append(fields, "charge: always")
	}
	if r.OnFailure != descriptors.PolicyDefault {
		fields = append(fields, "on_backend_failure: "+r.OnFailure.String())
	}
	if r.Metadata != nil {
		fields = append(fields, "metadata: "+freeText(r.Metadata))
	}
	replaces := make([]string, len(r.Replaces))
	for i, name := range r.Replaces {
		replaces[i] = "{name: " + inQuotes(name) + "}"
	}
	replaced := ", replaces: [" + strings.Join(replaces, ", ") + "]"
	if r.Unlimited {
		return append(fields, "rate_limit: {unlimited: true, name: "+inQuotes(r.Name)+replaced+"}")
	}
	limits := make([]string, len(r.Limits))
	for i, l := range r.Limits {
		limits[i] = fmt.Sprintf("requests_per_unit: %d, unit: %s, unit_multiplier: %d, algorithm: %s, name: %s",
			l.Requests, l.Unit, l.Multiplier, l.Algorithm, inQuotes(l.Name))
		if l.Algorithm == descriptors.SlidingWindow {
			limits[i] += ", precision: " + l.LevelNames()[0]
		}
		if l.Burst > 0 {
			limits[i] += fmt.Sprintf(", burst: %d", l.Burst)
		}
	}
	limits[0] += replaced
	if len(limits) == 1 {
		return append(fields, "rate_limit: {"+limits[0]+"}")
	}
	return append(fields, "rate_limits: [{"+strings.Join(limits, "}, {")+"}]")
}

// freeText writes metadata as YAML. A "?" stands before each key, since YAML allows others only 1,024 characters.
func freeText(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case float64:
		if text := strconv.FormatFloat(v, 'g', -1, 64); strings.ContainsAny(text, ".e") {
			return text
		}
		return strconv.FormatFloat(v, 'f', 1, 64) // a whole number could not be -0
	case string:
		return inQuotes(v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = freeText(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		items := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, "? "+inQuotes(key)+" : "+freeText(v[key]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	panic(fmt.Sprintf("metadata holds a %T, which JSON has not", v))
}

// inQuotes writes a text so that YAML reads it back, whatever characters it holds.
func inQuotes(s string) string { return strconv.QuoteToASCII(s) }

// checkSameDomain fails unless two configurations have the same rules, passes and match tree for a domain, apart from
// the lines that they stand on.
func checkSameDomain(t *testing.T, got, want *descriptors.Config, gotTree, wantTree *descriptors.Domain, why string) {
	t.Helper()
	domain := wantTree.Name
	gotRules, wantRules := rulesOf(got, domain), rulesOf(want, domain)
	if len(gotRules) != len(wantRules) {
		t.Fatalf("%s: %d rules, want %d", why, len(gotRules), len(wantRules))
	}
	for i := range gotRules {
		if !reflect.DeepEqual(gotRules[i], wantRules[i]) {
			t.Fatalf("%s: rule %d is\n%+v, want\n%+v", why, i, gotRules[i], wantRules[i])
		}
	}
	if gotTree.Refunds != wantTree.Refunds {
		t.Fatalf("%s: refund_on_deny is %t, want %t", why, gotTree.Refunds, wantTree.Refunds)
	}
	if g, w := passesOf(got, domain), passesOf(want, domain); !slices.Equal(g, w) {
		t.Fatalf("%s: what passes is %q, want %q", why, g, w)
	}
	if g, w := canonical(got, gotTree), canonical(want, wantTree); g != w {
		t.Fatalf("%s: the match tree is\n%s\nwant\n%s", why, g, w)
	}
}

// rulesOf are the rules of a domain, without what depends on lines.
func rulesOf(c *descriptors.Config, domain string) (rules []descriptors.Rule) {
	for _, r := range c.Rules() {
		if r.Domain == domain {
			if r.Number != len(rules) {
				panic(fmt.Sprintf("rule %s has number %d and index %d", r.Path, r.Number, len(rules)))
			}
			plain := *r
			plain.Where = ""
			rules = append(rules, plain)
		}
	}
	return rules
}

func passesOf(c *descriptors.Config, domain string) (paths []string) {
	for _, p := range c.Passes() {
		if p.Domain == domain {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

func TestCanonicalTextIsGoodToRead(t *testing.T) {
	c, trees, _ := read([]File{{"shop.yaml", []byte(`
domain: shop
descriptors:
  - {key: b*, value_to_metric: true}
  - {key: c, value_to_metric: true, descriptors: [{key: d, detailed_metric: yes, rate_limit: {unlimited: on}}, {key: e}]}
  - {key: f, value_to_metric: true, descriptors: [{key: g, rate_limit: {unlimited: on}}]}
  - {key: a, value: x*, share_threshold: true, rate_limit: {requests_per_unit: 010, unit: WEEK, replaces: [{name: n}]}}
  - {key: a, descriptors: [{key: c, metadata: {b: -0.0, a: [~, 7]}, rate_limit: {unlimited: yes, name: n}}]}
`)}}, Options{})
	const plain, unlimited = `shadow_mode: false, quota_mode: false, message: ""`, `rate_limit: {unlimited: true, name: "", replaces: []}`
	want := `domain: "shop"
refund_on_deny: false
descriptors: [
 {key: "b*"},
 {key: "c", descriptors: [
  {key: "d", detailed_metric: true, ` + plain + `, ` + unlimited + `},
  {key: "e"},
 ]},
 {key: "f", value_to_metric: true, descriptors: [
  {key: "g", detailed_metric: false, ` + plain + `, ` + unlimited + `},
 ]},
 {key: "a", value: "x*", detailed_metric: false, ` + plain + `, rate_limit: {requests_per_unit: 8, unit: week, ` +
		`unit_multiplier: 1, algorithm: sliding_window, name: "", precision: 1h, replaces: [{name: "n"}]}, share_threshold: true},
 {key: "a", descriptors: [
  {key: "c", detailed_metric: false, ` + plain + `, metadata: {? "a" : [null, 7.0], ? "b" : -0.0}, ` +
		`rate_limit: {unlimited: true, name: "n", replaces: []}},
 ]},
]
`
	if got := canonical(c, trees["shop"]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
