// Package historyapi answers queries about the history of hits: over time, by rule, whether it is exact, and all of
// it as a file. The JSON API, the web page and weir history use the same parameters, those of a URL.
package historyapi

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// History answers from a store, for any number of goroutines. An answer may take some 100 MB while it is made: bound
// how many are made concurrently. Errors are a [Refusal], or the store's.
type History struct {
	store history.Store
	lag   int64 // seconds until hits are stored, at most; 0 if unknown
	now   func() time.Time
}

// New answers from a store that gets hits every flushInterval, 0 if unknown; now is the clock of relative times.
func New(store history.Store, flushInterval time.Duration, now func() time.Time) *History {
	return &History{history.HidingStore(store), int64(flushInterval.Seconds()), now}
}

// Origin says where a command has read an answer.
type Origin struct {
	Source string `json:"source,omitempty"` // such as: the weir at 127.0.0.1:6070
}

// SetSource sets where the answer was read.
func (o *Origin) SetSource(source string) { o.Source = source }

// HiddenNotice explains hashes in place of values, and how to see the values.
const HiddenNotice = "Values are shown as hashes, as this request may not read them: it must have the token of " +
	"ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE or, without the first, come from weir's own host to a loopback address."

// How many rows a ranking has by default, and at most.
const DefaultRows, MaxRows = 20, 1000

const maxPoints = 10_000 // buckets of a series

// query is a query of the history, as [History.read] parses it.
type query struct {
	history.RangeQuery
	mergeValues bool   // add up the values of a rule
	mergeRules  bool   // add up all rules, and their values
	by          string // rank by hits, or by an outcome
	rows        int    // of the ranking
	now         int64  // Unix seconds
}

// read parses parameters, whose names must be among these. Its error is a [Refusal].
func (h *History) read(p Parameters, names ...string) (*query, error) {
	if err := p.Check(names...); err != nil {
		return nil, err
	}
	now := h.now()
	values, badValues := p.Bool("values", true)
	rules, badRules := p.Bool("rules", true)
	points, badPoints := p.Number("points", 0, maxPoints)
	rows, badRows := p.Number("n", DefaultRows, MaxRows)
	outcomes, badOutcome := parse(p, "outcome", nil, parseOutcomes)
	step, badStep := parse(p, "step", 0, history.ParseStep)
	zone, badZone := parse(p, "tz", time.UTC, parseZone)
	inRange, badRange := p.Range("from", "to", now, zone)
	by, badBy := p.By()
	if err := cmp.Or(badValues, badRules, badPoints, badRows, badOutcome, badStep, badZone, badRange, badBy); err != nil {
		return nil, err
	}
	switch {
	case points > 0 && step > 0:
		return nil, refuse("points says how many buckets there are, step how wide they are: give one of them.")
	case step > 0 && steps(inRange, step) > maxPoints:
		return nil, refuse("step: this range has %d steps of %s, more than %d: use wider ones.", steps(inRange, step),
			stepName(step), maxPoints)
	}
	return &query{RangeQuery: history.RangeQuery{
		Query: history.Query{Domain: p.optional("domain"), Path: p.optional("path"), Value: p.optional("value"), Outcomes: outcomes},
		Range: inRange, Points: points, Step: step, Zone: zone,
	}, mergeValues: !values || !rules, mergeRules: !rules, by: by, rows: rows, now: now.Unix()}, nil
}

// Refusal is the error of a query that cannot be answered: a sentence for the client.
type Refusal string

// Error returns the sentence.
func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }
