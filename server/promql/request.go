package promql

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/weirproxy/weir/server/promql/engine"
)

// maxBody is the most bytes of a request's parameters: enough for many long queries.
const maxBody = 128 << 10

// request is a request with its parameters, from its URL and its body.
type request struct {
	*http.Request
	refused *answer // for the first invalid parameter; nil for none
}

// read reads the parameters of a request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (*request, *answer) {
	if len(r.URL.RawQuery) > maxBody {
		return nil, refuse(badData, "error parsing form values: the URL is longer than %d bytes", maxBody)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return nil, refuse(badData, "error parsing form values: %w", err)
	}
	return &request{Request: r}, nil
}

// refuse notes that a parameter is invalid, if err is not nil and no other was invalid before.
func (r *request) refuse(name string, err error) {
	if err != nil && r.refused == nil {
		r.refused = refuse(badData, "invalid parameter %q: %w", name, err)
	}
}

// The range of times in Prometheus, in Unix seconds.
const firstSecond, lastSecond = math.MinInt64/1000 + 62135596801, math.MaxInt64/1000 - 62135596801

// parseTime reads Unix seconds or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds >= firstSecond && seconds <= lastSecond {
			whole, part := math.Modf(seconds)
			return time.Unix(int64(whole), int64(math.Round(part*1000))*int64(time.Millisecond)).UTC(), nil
		}
	} else if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", clip(text))
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

// matchers returns the sets of matchers of match[]; without match[], one empty set.
func (r *request) matchers(p parser.Parser) [][]*labels.Matcher {
	all := r.Form["match[]"]
	if len(all) == 0 {
		return [][]*labels.Matcher{nil}
	}
	err := engine.CheckText(strings.Join(all, "\n")) // the parser ends with the first that does not stand by itself
	if err != nil {
		r.refuse("match[]", err)
		return nil
	}
	sets, err := p.ParseMetricSelectors(all)
	selectsAll := func(set []*labels.Matcher) bool {
		return !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return m != nil && !m.Matches("") })
	}
	if err == nil && slices.ContainsFunc(sets, selectsAll) {
		err = errors.New("match[] must contain at least one non-empty matcher")
	}
	r.refuse("match[]", err)
	return sets
}

// clip shortens a client's text for a message.
func clip(text string) string {
	const maxClipped = 200 // bytes
	if len(text) > maxClipped {
		return text[:maxClipped] + "…"
	}
	return text
}
