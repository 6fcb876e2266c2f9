package historyapi

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/history"
)

// Parameters are the URL parameters of a query. An empty one counts as missing. Errors are a [Refusal].
type Parameters url.Values

// Get returns a parameter, "" for none.
func (p Parameters) Get(name string) string { return url.Values(p).Get(name) }

// Check refuses unknown parameters, because a mistyped one would have no effect.
func (p Parameters) Check(known ...string) error {
	for name, given := range p {
		if !slices.Contains(known, name) || len(given) != 1 || !utf8.ValidString(given[0]) {
			return refuse("Parameter %q is unknown, given twice, or not UTF-8: give each of %q once.", name, known)
		}
	}
	return nil
}

// Bool reads true or false.
func (p Parameters) Bool(name string, byDefault bool) (bool, error) {
	value, err := parse(p, name, byDefault, strconv.ParseBool)
	if err != nil {
		return false, refuse("%s must be true or false, not %q.", name, p.Get(name))
	}
	return value, nil
}

// Number reads a whole number from 1 to a maximum.
func (p Parameters) Number(name string, byDefault, maximum int) (int, error) {
	n, err := parse(p, name, byDefault, strconv.Atoi)
	if text := p.Get(name); err != nil || text != "" && (n < 1 || n > maximum) {
		return 0, refuse("%s must be a whole number from 1 to %d, not %q.", name, maximum, text)
	}
	return n, nil
}

// By reads what to rank by: hits, the default, or an outcome.
func (p Parameters) By() (string, error) {
	by := cmp.Or(p.Get("by"), byHits)
	if by == byHits {
		return by, nil
	}
	o, err := history.ParseOutcome(by)
	if err != nil {
		return "", refuse("by: nothing is ranked by %q: use one of %s.", by, strings.Join(rankings, ", "))
	}
	return o.String(), nil
}

// Range reads a range of time. It ends now by default, with the current second, and begins an hour before its end. A
// time of day means, as the end, the first after the beginning; as the beginning, the last before now.
func (p Parameters) Range(from, to string, now time.Time, zone *time.Location) (r history.Range, err error) {
	moment := func(text string) (int64, error) { return history.ParseMoment(text, now, zone) }
	if at, ok := history.ParseClockAfter(p.Get(to), p.Get(from), now, zone); ok {
		r.To = at
	} else if r.To, err = parse(p, to, now.Unix()+1, moment); err != nil {
		return r, err
	}
	if r.From, err = parse(p, from, max(r.To-history.Hour, 0), moment); err != nil {
		return r, err
	}
	if r.Length() <= 0 {
		stamp := func(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }
		return r, refuse("%s (%s) must be before %s (%s).", from, stamp(r.From), to, stamp(r.To))
	}
	return r, nil
}

// optional returns a parameter, nil for none.
func (p Parameters) optional(name string) *string {
	if text := p.Get(name); text != "" {
		return &text
	}
	return nil
}

// parse parses a parameter; a missing one has the default.
func parse[T any](p Parameters, name string, byDefault T, read func(string) (T, error)) (T, error) {
	text := p.Get(name)
	if text == "" {
		return byDefault, nil
	}
	value, err := read(text)
	if err != nil {
		return byDefault, refuse("%s: %v.", name, err)
	}
	return value, nil
}

func parseOutcomes(name string) ([]history.Outcome, error) {
	o, err := history.ParseOutcome(name)
	return []history.Outcome{o}, err
}

func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is not a time zone: use a name such as Europe/Berlin", name)
	}
	return zone, nil
}
