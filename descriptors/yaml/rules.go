package yaml

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// rule parses the rule of a descriptor. It returns nil if the descriptor has no limit.
func (p *parser) rule(m mapping, at level, where string) *descriptors.Rule {
	r := &descriptors.Rule{
		Path:      p.path,
		Where:     where,
		Shadow:    p.boolean(m, "shadow_mode"),
		Quota:     p.boolean(m, "quota_mode"),
		Charge:    enum(p, m, "charge", descriptors.ParseCharge),
		OnFailure: enum(p, m, "on_backend_failure", descriptors.ParsePolicy),
		Message:   p.text(m, "message"),
		Metadata:  p.metadata(m),
		Values:    at.values,
		Patterns:  at.patterns,
	}
	if n := m.get("lease"); n != nil && !isNull(n) {
		r.Lease = new(p.boolean(m, "lease"))
	}
	detailed := p.boolean(m, "detailed_metric")
	if detailed {
		r.Values = make([]int, at.depth)
		for i := range r.Values {
			r.Values[i] = i
		}
	}
	single, list := p.limitField(m, "rate_limit"), p.limitField(m, "rate_limits")
	if single != nil && list != nil {
		p.errorf(m.at("rate_limits"), "rate_limit and rate_limits on one descriptor: write rate_limits: for both")
	}
	if list != nil {
		p.limits(list, r)
	}
	if single != nil && isNull(single) {
		p.lostLimitf(m.at("rate_limit"), "rate_limit is empty, so that what matches passes uncounted: indent its keys "+
			"below it, or leave it out")
		return nil
	}
	if single != nil {
		r.Unlimited = p.rateLimit(single, r)
	}
	switch {
	case r.Unlimited:
		p.warnIneffective(m, r, "on an unlimited descriptor", false) // its hits are counted, in detail too
	case single == nil && list == nil:
		p.warnIneffective(m, r, "on a descriptor without a rate_limit of its own", detailed)
		return nil
	default:
		p.warnOfLimits(m, r)
	}
	return r
}

// limitField returns a field with limits, nil if it is missing. It also returns nil, and warns, if it is an empty
// mapping or list.
func (p *parser) limitField(m mapping, name string) *yaml.Node {
	n := m.get(name)
	if n == nil || n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		return n
	}
	p.warnf(m.at(name), "%s is empty, so that what matches passes uncounted: leave it out", name)
	return nil
}

// warnOfLimits warns of limits that cannot have envoyproxy/ratelimit's keys though these are configured, of logs
// without a bound, and of limits that cannot be leased.
func (p *parser) warnOfLimits(m mapping, r *descriptors.Rule) {
	if p.options.Keys.Format == descriptors.KeysOfRatelimit && len(r.Limits) > 0 && !r.FitsRatelimit() {
		p.warnf(m.node, "envoyproxy/ratelimit cannot count this: its counters have weir's own keys, for which Redis needs "+
			"the right to run scripts. Only one fixed_window limit of one unit, charged always, has the keys of KEY_FORMAT=ratelimit")
	}
	if r.Charge == descriptors.ChargeAlways && slices.ContainsFunc(r.Limits, isLog) {
		p.warnf(m.at("charge"), "a sliding_log that charges always keeps the instants of denied hits too, without a "+
			"bound: charge admitted, or use sliding_window")
	}
	cannotLease := func(l descriptors.Limit) bool {
		coarse := l.Algorithm == descriptors.SlidingWindow && l.Precision >= time.Second || l.Algorithm == descriptors.FixedWindow
		return !coarse || l.Requests < minLeased || r.Charge.Always(&l)
	}
	if r.Leases(false) && slices.ContainsFunc(r.Limits, cannotLease) {
		p.warnf(m.at("lease"), "lease has no effect: it takes limits of %d hits or more, by sliding_window with a precision "+
			"of 1s or more, or by fixed_window with charge: admitted", minLeased)
	}
}

// minLeased is the smallest limit whose hits are leased. A tenth of it is the smallest lease; see LEASES.md.
const minLeased = 80

func isLog(l descriptors.Limit) bool { return l.Algorithm == descriptors.SlidingLog }

// warnIneffective warns of keys that have no effect without a limit, unless they are flags that are off.
func (p *parser) warnIneffective(m mapping, r *descriptors.Rule, where string, detailed bool) {
	off := map[string]bool{"shadow_mode": !r.Shadow, "quota_mode": !r.Quota, "detailed_metric": !detailed, "lease": !r.Leases(false)}
	for _, name := range []string{"charge", "on_backend_failure", "lease", "message", "shadow_mode", "quota_mode", "metadata",
		"detailed_metric"} {
		if n := m.get(name); n != nil && !off[name] {
			p.warnf(n, "%s has no effect %s", name, where)
		}
	}
}

// values returns Rule.Values of a descriptor: those above it and, with value_to_metric, its own entry.
func (p *parser) values(m mapping, above level) []int {
	if !p.boolean(m, "value_to_metric") {
		return above.values
	}
	if v := m.get("value"); v != nil && v.Value != "" && !isNull(v) && !strings.Contains(v.Value, "*") {
		p.warnf(m.at("value_to_metric"), "value_to_metric has no effect beside a value without *: there is only one")
		return above.values
	}
	return append(slices.Clip(above.values), above.depth)
}

// patterns returns Rule.Patterns of a descriptor: the patterns above it and, with share_threshold, that of its entry.
func (p *parser) patterns(m mapping, above level, key, value string) []string {
	if !p.boolean(m, "share_threshold") {
		return above.patterns
	}
	if !strings.Contains(key+value, "*") {
		p.errorf(m.at("share_threshold"), "share_threshold lets all that a * stands for share one count, but neither "+
			"key nor value has a *: leave it out")
		return above.patterns
	}
	all := make([]string, above.depth+1)
	copy(all, above.patterns)
	all[above.depth] = cmp.Or(value, "*") // without a value, the key has the star
	return all
}

// rateLimit parses the rate_limit of r, and reports whether it is unlimited.
func (p *parser) rateLimit(n *yaml.Node, r *descriptors.Rule) bool {
	m, ok := p.mapping(n, inRateLimit)
	if !ok {
		return false
	}
	if !p.boolean(m, "unlimited") {
		l, ok := p.limit(m)
		if ok {
			r.Limits = append(r.Limits, l)
		}
		r.Replaces = p.replaces(m, l.Name)
		return false
	}
	name := p.limitName(m, p.text(m, "name"))
	r.Replaces = p.replaces(m, name)
	for _, name := range inListItem.keys {
		n := m.get(name)
		switch {
		case n == nil || name == "name" || name == "replaces":
		case name == "requests_per_unit":
			p.wholeNumber(m, name, 0)
			p.warnf(m.at(name), "%s has no effect beside unlimited: leave out one of the two", name)
		case name == "unit" && !isUnit(n):
			p.warnf(m.at(name), "unit has no effect beside unlimited, and %s is none: leave it out", describe(n))
		default:
			p.errorf(m.at(name), "rate_limit should not specify %s when unlimited: leave out one of the two", name)
		}
	}
	r.Name, p.names[[2]string{p.file.domain, name}] = name, true
	return true
}

func isUnit(n *yaml.Node) bool {
	_, err := descriptors.ParseUnit(n.Value)
	return err == nil
}

func (p *parser) limits(n *yaml.Node, r *descriptors.Rule) {
	items := p.list(n, "rate_limits")
	if len(items) > maxLimits {
		p.errorf(n, "rate_limits lists %d limits: at most %d are allowed", len(items), maxLimits)
		return
	}
	for _, item := range items {
		m, ok := p.mapping(item, inListItem)
		if !ok {
			continue
		}
		r.Replaces = append(r.Replaces, p.replaces(m, "")...)
		if l, ok := p.limit(m); ok {
			p.checkCombination(m.node, r.Limits, l)
			r.Limits = append(r.Limits, l)
		}
	}
	if i := slices.IndexFunc(r.Limits, func(l descriptors.Limit) bool { return l.ReplacedBy(r.Replaces) }); i >= 0 {
		p.errorf(n, "replaces should not contain name of same descriptor: %s is one of its own limits",
			descriptors.Abbreviate(r.Limits[i].Name))
	}
}

// checkCombination adds an error if a limit cannot be in one rule with those before it.
func (p *parser) checkCombination(n *yaml.Node, all []descriptors.Limit, l descriptors.Limit) {
	if i := slices.IndexFunc(all, func(o descriptors.Limit) bool { return o.SameState(&l) }); i >= 0 {
		p.errorf(n, "%s and %s would share one count (same window, precision and algorithm): keep one", all[i], l)
	}
	if with := append(slices.Clip(all), l); descriptors.Mixed(with) && !descriptors.Mixed(all) {
		p.errorf(n, "%s is a %s and %s a %s, but the limits of a rule are all sliding_log or none: "+
			"put the sliding_log in a rule of its own, or use sliding_window for all", all[0], all[0].Algorithm, l, l.Algorithm)
	}
}

// limit parses the keys that rate_limit and an item of rate_limits have in common.
func (p *parser) limit(m mapping) (descriptors.Limit, bool) {
	before := p.errors
	if n := m.get("requests_per_unit"); (n == nil || isNull(n)) && !p.options.NoLines { // without lines, no person wrote it
		p.warnf(m.node, "requests_per_unit is missing: 0 blocks every request")
	}
	if m.get("unit") == nil {
		p.errorf(m.node, "unit is missing: use one of %s", descriptors.UnitNames)
	}
	requests := p.wholeNumber(m, "requests_per_unit", 0)
	unit := enum(p, m, "unit", descriptors.ParseUnit)
	multiplier := cmp.Or(p.wholeNumber(m, "unit_multiplier", 1), 1)
	algorithm := enum(p, m, "algorithm", descriptors.ParseAlgorithm)
	precision := enum(p, m, "precision", descriptors.ParsePrecision)
	burst := p.wholeNumber(m, "burst", 1)
	name := p.limitName(m, p.text(m, "name"))
	if p.errors > before {
		return descriptors.Limit{}, false
	}
	if algorithm == 0 {
		algorithm = p.options.Algorithm
		if precision != 0 && algorithm != descriptors.SlidingWindow {
			precision = 0
			p.warnOfDefault(m, "precision", descriptors.SlidingWindow)
		}
		if burst != 0 && algorithm != descriptors.TokenBucket {
			burst = 0
			p.warnOfDefault(m, "burst", descriptors.TokenBucket)
		}
	}
	if algorithm == descriptors.SlidingLog && p.options.NoLogs != "" {
		p.errorf(m.at("algorithm"), "%s", p.options.NoLogs)
		return descriptors.Limit{}, false
	}
	l, err := descriptors.NewLimit(uint64(requests), unit, multiplier, algorithm, precision)
	if err == nil && burst > 0 {
		l, err = l.WithBurst(uint64(burst))
	}
	if err != nil {
		p.errorf(m.node, "%v", err)
		return descriptors.Limit{}, false
	}
	l.Name, p.names[[2]string{p.file.domain, name}] = name, true
	return l, true
}

// limitName returns a name escaped for answers. If that changes the name, it warns, or adds an error and returns "".
func (p *parser) limitName(m mapping, given string) string {
	const remedy = "use printable ASCII without \" and \\, as Envoy writes it into a header"
	name := descriptors.HeaderName(given)
	switch {
	case name == given:
	case p.options.Lenient:
		p.warnf(m.get("name"), "name is sent as %s: %s", descriptors.Abbreviate(name), remedy)
	default:
		p.errorf(m.get("name"), "name is %s: %s", descriptors.Quote(given), remedy)
		return ""
	}
	return name
}

// warnOfDefault warns of a key that the default algorithm ignores. It is no error, as with another default the file
// would be right.
func (p *parser) warnOfDefault(m mapping, key string, algorithm descriptors.Algorithm) {
	p.warnf(m.at(key), "%s has no effect: the limit counts by %s, the value of ALGORITHM. Give it algorithm: %s, or "+
		"leave %s out", key, p.options.Algorithm, algorithm, key)
}

// replacement is a name in a list replaces, and its position.
type replacement struct {
	file       *parsedFile
	path, name string
	line       int
}

// replaces parses the names of the limits that a rate_limit named own replaces.
func (p *parser) replaces(m mapping, own string) (names []string) {
	n := m.get("replaces")
	if n == nil || isNull(n) {
		return nil
	}
	for _, item := range p.list(n, "replaces") {
		replaced, ok := p.mapping(item, inReplaces)
		if !ok {
			continue
		}
		name := p.limitName(replaced, p.required(replaced, "name", "should not have an empty replaces entry: give the name "+
			"of a limit"))
		if name == "" {
			continue
		}
		if name == own {
			p.errorf(item, "replaces should not contain name of same descriptor: a limit cannot stand in for itself")
		}
		names = append(names, name)
		p.replacements = append(p.replacements, replacement{p.file, p.path, name, item.Line})
	}
	return names
}

// warnOfNothingReplaced warns, after all files are parsed, of each replaced name that no limit of its domain has.
func (p *parser) warnOfNothingReplaced() {
	for _, r := range p.replacements {
		p.file, p.path = r.file, r.path
		if !p.names[[2]string{p.file.domain, r.name}] {
			p.warnf(&yaml.Node{Line: r.line}, "replaces %s, but no limit of this domain has that name: correct it, "+
				"or leave it out", descriptors.Abbreviate(r.name))
		}
	}
}
