package query

import (
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/history"
)

// Parameters are those of a question, as they come in a URL. One that is empty is as good as none. Errors are a [Refusal].
type Parameters url.Values

// Get returns a parameter, "" for none.
func (p Parameters) Get(name string) string { return url.Values(p).Get(name) }

// Check refuses parameters that are not known: a mistyped one would be silently ignored.
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
	text := p.Get(name)
	if text == "" {
		return byDefault, nil
	}
	given, err := strconv.ParseBool(text)
	if err != nil {
		return false, refuse("%s must be true or false, not %q.", name, text)
	}
	return given, nil
}

// Number reads a whole number from 1.
func (p Parameters) Number(name string, byDefault, most int) (int, error) {
	text := p.Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, refuse("%s must be a whole number from 1 to %d, not %q.", name, most, text)
	}
	return n, nil
}

// given returns a parameter, nil for none.
func (p Parameters) given(name string) *string {
	if text := p.Get(name); text != "" {
		return &text
	}
	return nil
}

// outcomes reads the name of one outcome; none stands for all.
func (p Parameters) outcomes(name string) ([]history.Outcome, error) {
	text := p.Get(name)
	if text == "" {
		return nil, nil
	}
	outcome, err := history.ParseOutcome(text)
	if err != nil {
		return nil, refuse("%s: %v.", name, err)
	}
	return []history.Outcome{outcome}, nil
}

// step reads a width of buckets, 0 for none.
func (p Parameters) step(name string) (int64, error) {
	text := p.Get(name)
	if text == "" {
		return 0, nil
	}
	step, err := history.ParseStep(text)
	if err != nil {
		return 0, refuse("%s: %v.", name, err)
	}
	return step, nil
}

// zone reads the name of a time zone; none stands for UTC.
func (p Parameters) zone(name string) (*time.Location, error) {
	text := p.Get(name)
	zone, err := time.LoadLocation(text)
	if err != nil || text == "Local" {
		return nil, refuse("%s: %q is not a time zone: use a name such as Europe/Berlin.", name, text)
	}
	return zone, nil
}
