package curves

import (
	"time"

	"github.com/weirproxy/weir/backend/history"
)

const (
	// MaxPoints is how many buckets a series may be cut into.
	MaxPoints = 10_000
	// MaxRows is how many rows of a ranking may be asked for.
	MaxRows = 1000
)

// Rules says which rules a question is about; what is empty selects all.
type Rules struct {
	Domain string
	Path   string // as it is stored, or as people are shown it, which is not escaped
	Value  string // of a rule that counts values each by itself
}

// Period says which time a question is about: from From until before To, as [history.ParseMoment] reads them. Without To
// it ends now, the present second included; without From it begins an hour before.
type Period struct{ From, To string }

// question is what the store is asked.
type question struct {
	query  history.Query // without its range
	wanted history.Range // as asked for
	points int           // 0: as stored
	zone   *time.Location
}

// newQuestion reads what is the same in all questions. Without an outcome it is about each of them.
func newQuestion(rules Rules, outcome string) (*question, error) {
	only := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	q := &question{zone: time.UTC}
	q.query = history.Query{Domain: only(rules.Domain), Path: only(rules.Path), Value: only(rules.Value)}
	if outcome != "" {
		parsed, err := history.ParseOutcome(outcome)
		if err != nil {
			return nil, refuse("outcome: %v.", err)
		}
		q.query.Outcomes = []history.Outcome{parsed}
	}
	return q, nil
}

// at reads the period of a question by a clock.
func (q *question) at(p Period, now time.Time) error {
	moment := func(name, text string, byDefault int64) (int64, error) {
		if text == "" {
			return byDefault, nil
		}
		at, err := history.ParseMoment(text, now)
		if err != nil {
			err = refuse("%s: %v.", name, err)
		}
		return at, err
	}
	var err error
	if q.wanted.To, err = moment("to", p.To, now.Unix()+1); err != nil {
		return err
	}
	if q.wanted.From, err = moment("from", p.From, max(q.wanted.To-int64(time.Hour/time.Second), 0)); err != nil {
		return err
	}
	if q.wanted.Length() <= 0 {
		return refuse("from (%s) must be before to (%s).", stamp(q.wanted.From), stamp(q.wanted.To))
	}
	return nil
}

func stamp(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }

// RefuseNumber returns the [Refusal] of what was given for a whole number from 1.
func RefuseNumber(name, given string, most int) error {
	return refuse("%s must be a whole number from 1 to %d, not %q.", name, most, given)
}
