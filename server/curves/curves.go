// Package curves answers questions about the history of hits: how many over time, of which rules, and if it is exact.
package curves

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// History answers from a store, to any number of goroutines. An answer may take some 100 MB while it is made: bound how
// many there are at a time. Errors are a [Refusal], or the store's.
type History struct {
	store history.Store
	now   func() time.Time
}

// NewHistory answers from a store; now is the clock that relative times are read by.
func NewHistory(store history.Store, now func() time.Time) *History {
	return &History{store: history.Readable(store), now: now}
}

// Refusal is the error of a question that cannot be answered: a sentence for whoever asked.
type Refusal string

// Error returns the sentence.
func (r Refusal) Error() string { return string(r) }

// hidden tells whoever was shown hashes instead of values how to see them.
const hidden = "Values are shown as hashes, as this question may not read them: it must bring the token of " +
	"ADMIN_READ_TOKEN_FILE or ADMIN_TOKEN_FILE or, where weir has neither, come from weir's own host to a loopback address."

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// WriteJSON writes a value as a line of JSON, with <, > and & as they are.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

const (
	MaxPoints = 10_000 // how many buckets a series may be cut into
	MaxRows   = 1000   // how many rows of a ranking may be asked for
)

// Question is what people ask about the history. What is empty or 0 is left open.
type Question struct {
	Domain, Path, Value string // only these; a path and a value as they are stored, or as people are shown them, not escaped
	Outcome             string // only this, such as within; not for Top
	Merged              bool   // the values of a rule as one; of Show, only with Points or Step

	// From until before To, as [history.ParseMoment] reads them; not for Verify. Without To it is now, the present second
	// included, and without From an hour before To.
	From, To string

	Points int    // of Show: how many buckets to cut the time into at most; left open, as they are stored
	Step   string // of Show: instead, how wide they are to be, as [history.ParseStep] reads it
	Zone   string // the time zone of days and of times without one, such as Europe/Berlin; left open, UTC
	By     string // of Top: what to rank by, hits or an outcome; left open, hits
	Rows   int    // of Top: how many to list at most, from 1
}

// query is a question as the store is asked.
type query struct {
	history.Query               // without its range
	wanted        history.Range // as asked for
	points        int           // 0: as stored, or by step
	step          int64         // seconds; 0: as stored, or by points
	zone          *time.Location
	now           int64 // Unix seconds
}

// read reads all of a question but how to rank.
func (h *History) read(asked *Question) (*query, error) {
	only := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	now := h.now()
	q := &query{points: asked.Points, zone: time.UTC, now: now.Unix()}
	q.Domain, q.Path, q.Value = only(asked.Domain), only(asked.Path), only(asked.Value)
	if asked.Outcome != "" {
		outcome, err := history.ParseOutcome(asked.Outcome)
		if err != nil {
			return nil, refuse("outcome: %v.", err)
		}
		q.Outcomes = []history.Outcome{outcome}
	}
	if asked.Zone != "" {
		var err error
		if q.zone, err = time.LoadLocation(asked.Zone); err != nil || asked.Zone == "Local" {
			return nil, refuse("tz: %q is not a time zone: use a name such as Europe/Berlin.", asked.Zone)
		}
	}
	if q.points < 0 || q.points > MaxPoints {
		return nil, RefuseNumber("points", strconv.Itoa(q.points), MaxPoints)
	}
	if asked.Merged && q.points == 0 && asked.Step == "" {
		return nil, refuse("values=false adds up buckets of one width: give points or step with it.")
	}
	var err error
	if asked.Step != "" {
		if q.step, err = history.ParseStep(asked.Step); err != nil {
			return nil, refuse("step: %v.", err)
		}
		if q.points > 0 {
			return nil, refuse("points says how many buckets there are, step how wide they are: give one of them.")
		}
	}
	q.wanted, err = readRange(asked.From, asked.To, now, q.zone)
	return q, err
}

func readRange(from, to string, now time.Time, zone *time.Location) (r history.Range, err error) {
	r.To = now.Unix() + 1
	if to != "" {
		if r.To, err = history.ParseMoment(to, now, zone); err != nil {
			return r, refuse("to: %v.", err)
		}
	}
	r.From = max(r.To-int64(time.Hour/time.Second), 0)
	if from != "" {
		if r.From, err = history.ParseMoment(from, now, zone); err != nil {
			return r, refuse("from: %v.", err)
		}
	}
	if r.Length() <= 0 {
		stamp := func(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }
		return r, refuse("from (%s) must be before to (%s).", stamp(r.From), stamp(r.To))
	}
	return r, nil
}

// RefuseNumber returns the [Refusal] of what was given for a whole number from 1.
func RefuseNumber(name, given string, most int) error {
	return refuse("%s must be a whole number from 1 to %d, not %q.", name, most, given)
}
