package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxPoints is how many buckets a client may ask a series to be cut into.
const maxPoints = 10_000

// historyQuestion is what a request is about.
type historyQuestion struct {
	query  history.Query // without its range
	wanted history.Range // as asked for
	points int           // 0: as stored
	zone   *time.Location
	by     string // of top: hits, or an outcome
	rows   int    // of top
}

// ask reads a question. A parameter that is empty is as good as none.
func (h *History) ask(values url.Values, known ...string) (*historyQuestion, error) {
	if err := checkNames(values, known); err != nil {
		return nil, err
	}
	q := &historyQuestion{zone: time.UTC, by: byHits, rows: 20}
	for name, to := range map[string]**string{"domain": &q.query.Domain, "path": &q.query.Path, "value": &q.query.Value} {
		if given := values.Get(name); given != "" {
			*to = &given
		}
	}
	if name := values.Get("outcome"); name != "" {
		outcome, err := history.ParseOutcome(name)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "outcome: %v.", err)
		}
		q.query.Outcomes = []history.Outcome{outcome}
	}
	var err error
	if name := values.Get("tz"); name != "" {
		if q.zone, err = time.LoadLocation(name); err != nil || name == "Local" {
			return nil, refuse(http.StatusBadRequest, "tz: %q is not a time zone: use a name such as Europe/Berlin.", name)
		}
	}
	if q.points, err = number(values, "points", 0, maxPoints); err != nil {
		return nil, err
	}
	if q.rows, err = number(values, "n", q.rows, maxRows); err != nil {
		return nil, err
	}
	if by := values.Get("by"); by != "" {
		q.by = by
	}
	return q, h.askRange(q, values)
}

// number reads a whole number from 1.
func number(values url.Values, name string, byDefault, most int) (int, error) {
	text := values.Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, refuse(http.StatusBadRequest, "%s must be a whole number from 1 to %d, not %q.", name, most, text)
	}
	return n, nil
}

// askRange reads from and to: by default the hour until now, the present second included.
func (h *History) askRange(q *historyQuestion, values url.Values) error {
	now := h.now()
	moment := func(name string, byDefault int64) (int64, error) {
		text := values.Get(name)
		if text == "" {
			return byDefault, nil
		}
		at, err := history.ParseMoment(text, now)
		if err != nil {
			err = refuse(http.StatusBadRequest, "%s: %v.", name, err)
		}
		return at, err
	}
	var err error
	if q.wanted.To, err = moment("to", now.Unix()+1); err != nil {
		return err
	}
	if q.wanted.From, err = moment("from", max(q.wanted.To-int64(time.Hour/time.Second), 0)); err != nil {
		return err
	}
	if q.wanted.Length() <= 0 {
		return refuse(http.StatusBadRequest, "from (%s) must be before to (%s).", stamp(q.wanted.From), stamp(q.wanted.To))
	}
	return nil
}

func stamp(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }
