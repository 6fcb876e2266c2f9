package promql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/weirproxy/weir/server/promql/engine"
)

// maxBody is how long the parameters of a request may be, in bytes: many long queries.
const maxBody = 128 << 10

// request is a request with its parameters, from its URL and its body.
type request struct {
	*http.Request
	now time.Time
}

// read returns a request whose parameters are read.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (*request, *answer) {
	if len(r.URL.RawQuery) > maxBody {
		return nil, refuse(badData, "error parsing form values: the URL is longer than %d bytes", maxBody)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	err := r.ParseForm()
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "multipart/form-data" && err == nil {
		err = r.ParseMultipartForm(maxBody)
	}
	if err != nil {
		return nil, refuse(badData, "error parsing form values: %w", err)
	}
	return &request{r, h.config.Now()}, nil
}

// parameter returns the value of a parameter, "" for none.
func (r *request) parameter(name string) string { return r.Form.Get(name) }

func wrong(name string, err error) *answer {
	return refuse(badData, "invalid parameter %q: %w", name, err)
}

// Where ranges begin and end that say nothing of it. What clients of Prometheus send for that are the same moments.
var (
	firstMoment = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	lastMoment  = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// moment returns the moment that a parameter says.
func (r *request) moment(name string, byDefault time.Time) (time.Time, *answer) {
	text := r.parameter(name)
	if text == "" {
		return byDefault, nil
	}
	at, err := parseTime(text)
	if err != nil {
		return at, wrong(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return at, nil
}

// parseTime reads Unix seconds or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds >= float64(firstMoment.Unix()) && seconds <= float64(lastMoment.Unix()) {
			whole, part := math.Modf(seconds)
			return time.Unix(int64(whole), int64(math.Round(part*1000))*int64(time.Millisecond)).UTC(), nil
		}
	} else if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	for _, at := range []time.Time{firstMoment, lastMoment} {
		if at.Format(time.RFC3339Nano) == text { // its year has more digits than can be parsed
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", clip(text))
}

// span returns the range that start and end say, by default all time.
func (r *request) span() (from, to int64, refused *answer) {
	begin, refused := r.moment("start", firstMoment)
	if refused != nil {
		return 0, 0, refused
	}
	end, refused := r.moment("end", lastMoment)
	return milliseconds(begin), milliseconds(end), refused
}

func milliseconds(t time.Time) int64 {
	return t.Unix()*1000 + int64(t.Nanosecond()/int(time.Millisecond))
}

// parseDuration reads seconds, or a duration as Prometheus writes it: 1d12h.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		d := seconds * float64(time.Second)
		if math.IsNaN(d) || d >= math.MaxInt64 || d < math.MinInt64 {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", clip(text))
		}
		return time.Duration(d), nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", clip(text))
}

// bounded returns a context that ends when the time is over that timeout says, if it says one.
func (r *request) bounded() (context.Context, context.CancelFunc, *answer) {
	text := r.parameter("timeout")
	if text == "" {
		return r.Context(), func() {}, nil
	}
	timeout, err := parseDuration(text)
	if err == nil && timeout <= 0 {
		err = fmt.Errorf("timeout must be positive, got %s", timeout)
	}
	if err != nil {
		return nil, nil, wrong("timeout", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// limit returns how much is to be answered, 0 for all.
func (r *request) limit() (int, *answer) {
	text := r.parameter("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		return 0, wrong("limit", err)
	}
	return n, nil
}

// matchers returns the sets of matchers that match[] says, nil for none.
func (r *request) matchers(p parser.Parser) ([][]*labels.Matcher, *answer) {
	all := r.Form["match[]"]
	if err := engine.Fits(strings.Join(all, "\n")); err != nil { // the parser ends with the first that does not stand by itself
		return nil, wrong("match[]", err)
	}
	sets, err := p.ParseMetricSelectors(all)
	if err != nil {
		return nil, wrong("match[]", err)
	}
	for _, set := range sets {
		if !selects(set) {
			return nil, wrong("match[]", errors.New("match[] must contain at least one non-empty matcher"))
		}
	}
	return sets, nil
}

// selects reports whether matchers leave anything out.
func selects(set []*labels.Matcher) bool {
	for _, m := range set {
		if m != nil && !m.Matches("") {
			return true
		}
	}
	return false
}

// clip shortens what a client has sent for a message.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
