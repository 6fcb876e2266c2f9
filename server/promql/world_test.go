package promql_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
)

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// someday is where the clock of all tests stands: not the start of any bucket.
var someday = time.Date(2026, 11, 23, 10, 17, 42, 0, time.UTC)

// world is a history with its API behind a real port.
type world struct {
	t       testing.TB
	handler *promql.Handler
	address string // of the data source, as Grafana is given it
}

// newHandler returns the API of a history, with bounds that a test may change.
func newHandler(store history.Store, change ...func(*promql.Config)) *promql.Handler {
	now := func() time.Time { return someday }
	c := promql.Config{Config: engine.Config{Store: store, Rules: new(descriptors.Config).Rules, Now: now, MaxSamples: 5_000_000, Timeout: time.Hour, Log: slog.New(slog.DiscardHandler)},
		Version: "test"}
	for _, f := range change {
		f(&c)
	}
	return promql.NewHandler(c)
}

// serve serves a history.
func serve(t testing.TB, store history.Store, change ...func(*promql.Config)) *world {
	t.Helper()
	w := &world{t: t, handler: newHandler(store, change...)}
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	w.address = server.URL + "/prometheus"
	return w
}

// answer is what Prometheus's API answers.
type answer struct {
	Code      int `json:"-"`
	Header    http.Header
	Status    string
	ErrorType string
	Error     string
	Data      any
	Warnings  []string
	Infos     []string
}

// ask sends a request as Grafana does, with its parameters in the URL or in a form.
func ask(t testing.TB, address, method, path string, parameters url.Values) (a answer) {
	t.Helper()
	wrong := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s %s %v: %v", method, path, parameters, err)
		}
	}
	target, body := address+"/"+path, io.Reader(http.NoBody)
	if method == http.MethodPost {
		body = strings.NewReader(parameters.Encode())
	} else if len(parameters) > 0 {
		target += "?" + parameters.Encode()
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, body)
	wrong(err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(r)
	wrong(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	wrong(err)
	a.Code, a.Header = response.StatusCode, response.Header
	if kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); kind != "application/json" {
		a.Error = string(text)
		return a
	}
	wrong(json.Unmarshal(text, &a))
	return a
}

func (w *world) get(path string, parameters ...string) answer {
	w.t.Helper()
	return ask(w.t, w.address, http.MethodGet, path, values(parameters...))
}

func (w *world) post(path string, parameters ...string) answer {
	w.t.Helper()
	return ask(w.t, w.address, http.MethodPost, path, values(parameters...))
}

// values returns parameters of names and values in turn.
func values(parameters ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		v.Add(parameters[i], parameters[i+1])
	}
	return v
}

var (
	busy   = history.ID{Domain: "shop", Path: "user/path=%2Fpay"}
	sparse = history.ID{Domain: "shop", Path: "user", Outcome: history.Over}
	single = history.ID{Domain: "mail", Path: "sender", Outcome: history.Near, Value: "ann"}
)

// someHours returns increments of some series up to now, by the minute, before a week ago by the quarter of an hour.
func someHours(hours int64) []history.Increment {
	var all []history.Increment
	last := someday.Unix() / minute
	for m := last - hours*hour/minute; m <= last; m++ {
		if m < last-8*day/minute && m%15 > 0 {
			continue
		}
		all = append(all, history.Increment{ID: busy, Minute: m, Hits: uint64(20 + (m*7919)%31)})
		if m%17 == 0 {
			all = append(all, history.Increment{ID: sparse, Minute: m, Hits: 2}, history.Increment{ID: single, Minute: m, Hits: 1})
		}
	}
	return all
}

// keeping returns a history in memory that was told of increments, and did.
func keeping(t testing.TB, all []history.Increment) history.Store {
	t.Helper()
	store := historytest.NewLedgers(historytest.Options{Retention: history.DefaultRetention(), Now: func() time.Time { return someday },
		Step: func(string) {}})
	historytest.Count(t, store, all...)
	historytest.Downsample(t, store, someday)
	return store
}
