package admin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Rules has the configuration in force, nil before the first.
type Rules interface{ Config() *descriptors.Config }

// RuleAnswer is a rule in the answer of /api/v1/rules.
type RuleAnswer struct {
	Domain    string      `json:"domain"`
	Path      string      `json:"path"` // the stored form, escaped
	Limits    []RuleLimit `json:"limits"`
	Each      []string    `json:"each"` // keys that have a counter for each of their values
	Shadow    bool        `json:"shadow"`
	Unlimited bool        `json:"unlimited"`
	Quota     bool        `json:"quota"`
}

// RuleLimit is a limit of a rule in the answer of /api/v1/rules.
type RuleLimit struct {
	Text      string `json:"text"` // 10/minute
	Requests  uint64 `json:"requests"`
	Window    int64  `json:"window"`          // seconds
	Burst     uint64 `json:"burst,omitempty"` // of a token bucket
	Algorithm string `json:"algorithm"`
	Name      string `json:"name"`
	Bound     string `json:"bound"` // how many hits any window admits at most, for people
}

// RulesAnswer is the answer of /api/v1/rules.
type RulesAnswer struct {
	Loaded int64        `json:"loaded"` // Unix seconds; 0 if nothing is loaded
	Serves []string     `json:"serves"` // which of counters, denials, history and rules
	Rules  []RuleAnswer `json:"rules"`  // by domain and path
}

// rulesHandler serves the rules in force, and what the page can request from this port. With ten thousand rules and a
// request every few seconds, an ETag saves sending them again.
func rulesHandler(p *Parts) http.HandlerFunc {
	serves := []string{}
	for what, served := range map[string]bool{"rules": p.Rules != nil, "history": p.History != nil, "denials": p.Denials != nil,
		"counters": p.Counters != nil} {
		if served {
			serves = append(serves, what)
		}
	}
	slices.Sort(serves)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if _, err := parametersOnly(r); err != nil {
			writeError(w, err, "")
			return
		}
		a := RulesAnswer{Serves: serves, Rules: []RuleAnswer{}}
		if p.Rules != nil {
			a.Loaded = max(p.Loaded().Unix(), 0)
			for _, rule := range sortedRules(p.Rules.Config()) {
				a.Rules = append(a.Rules, ruleAnswer(rule))
			}
		}
		var body bytes.Buffer
		writeJSON(&body, a)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body.Bytes())))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body.Bytes()))
	}
}

// sortedRules returns the rules by domain and path; none for nil.
func sortedRules(config *descriptors.Config) []*descriptors.Rule {
	return slices.SortedStableFunc(slices.Values(config.Rules()), func(a, b *descriptors.Rule) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Path, b.Path))
	})
}

func ruleAnswer(r *descriptors.Rule) RuleAnswer {
	a := RuleAnswer{Domain: r.Domain, Path: r.Path, Limits: []RuleLimit{}, Each: perValueKeys(r),
		Shadow: r.Shadow, Unlimited: r.Unlimited, Quota: r.Quota}
	for i := range r.Limits {
		l := &r.Limits[i]
		_, bound := r.Bound(l)
		a.Limits = append(a.Limits, RuleLimit{Bound: bound, Text: l.String(), Requests: l.Requests, Window: int64(l.Window / time.Second),
			Burst: l.Burst, Algorithm: l.Algorithm.String(), Name: l.Name})
	}
	return a
}

// perValueKeys returns the keys of a rule that have a counter for each of their values: keys without a configured value, and
// those with a pattern, unless its values share a counter.
func perValueKeys(r *descriptors.Rule) []string {
	each := []string{}
	for entry, segment := range strings.Split(r.Path, "/") {
		key, value, configured := strings.Cut(segment, "=")
		if (!configured || strings.Contains(value, "*") || strings.Contains(key, "*")) && r.SharedPattern(entry) == "" {
			each = append(each, descriptors.ReadablePath(key))
		}
	}
	return each
}

// rlconfigHandler lists the limits in force, sorted, in the format of envoyproxy/ratelimit, which tools print. Without
// a configuration the list is empty.
func rlconfigHandler(r Rules) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var b strings.Builder
		for _, rule := range sortedRules(r.Config()) {
			writeRule(&b, rule)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, b.String()) // the client is gone if this fails
	}
}

// writeRule writes a line for each of the rule's limits. What envoyproxy/ratelimit does not have comes at the end.
func writeRule(b *strings.Builder, r *descriptors.Rule) {
	line := func(unit string, requests uint64, multiplier uint32) {
		fmt.Fprintf(b, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t", dottedName(r), unit, requests, r.Shadow, r.Quota)
		if multiplier > 1 {
			fmt.Fprintf(b, ", unit_multiplier: %d", multiplier)
		}
		b.WriteByte('\n')
	}
	if r.Unlimited {
		line("UNKNOWN", 0, 1)
	}
	for _, l := range r.Limits {
		line(strings.ToUpper(l.Unit.String()), min(l.Requests, math.MaxUint32), l.Multiplier)
	}
}

// dottedName returns a rule's path as envoyproxy/ratelimit writes it: shop.user.path_/pay.
func dottedName(r *descriptors.Rule) string {
	name := r.Domain
	for segment := range strings.SplitSeq(r.Path, "/") {
		key, value, hasValue := strings.Cut(segment, "=")
		name += "." + descriptors.ReadablePath(key)
		if hasValue {
			name += "_" + descriptors.ReadablePath(value)
		}
	}
	return descriptors.Printable(name)
}
