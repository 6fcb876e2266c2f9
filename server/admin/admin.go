// Package admin is the operator's port: liveness, readiness, metrics, counters, and the history of hits.
package admin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/server/door"
)

// Readiness knows whether the process should get traffic.
type Readiness interface {
	Ready() error // why it should not, nil if it should
}

// Parts are what the port serves.
type Parts struct {
	Readiness Readiness
	Metrics   http.Handler
	Stats     http.Handler   // the same for people; nil serves none
	Rules     Rules          // nil has none to show
	Counters  *Counters      // nil serves none
	Top       *Top           // nil serves none
	Denials   *Denials       // nil serves none
	History   *query.History // nil says that there is none
	Query     http.Handler   // /prometheus/; nil says that there is none
	// Loaded returns when the configuration in force was loaded, zero before the first; nil does not know.
	Loaded func() time.Time
	// ListFirst shows the list of what is served on / to whoever does not ask for HTML, as tools do. It is on /help in any case.
	ListFirst bool
	// Profiles serves Go's profiles, which lets whoever reaches the port slow the process down.
	Profiles bool
	Guard    *Guard // nil is the zero value
}

// maxLarge is how many answers about all rules are made or read at a time, and how many profiles.
const maxLarge = 4

// Handler serves the parts, lists what it serves on /help, and shows it to people on /.
func Handler(p Parts) http.Handler {
	if p.Guard == nil {
		p.Guard = &Guard{}
	}
	mux := http.NewServeMux()
	registerHealth(mux, p.Readiness)
	mux.Handle("GET /metrics", make(door.Turns, door.Scrapes).Bound(p.Metrics))
	large := make(door.Turns, maxLarge)
	if p.Stats != nil {
		mux.Handle("GET /stats", large.Bound(p.Stats))
	}
	if p.Rules != nil {
		mux.Handle("GET /rlconfig", large.Bound(showRules(p.Rules)))
	}
	mux.Handle("GET /api/v1/rules", large.Bound(listRules(&p)))
	if p.Counters != nil {
		p.Counters.register(mux, p.Guard)
	}
	if p.Top != nil {
		p.Top.register(mux, p.Guard)
	}
	if p.Denials != nil {
		p.Denials.register(mux, p.Guard, large)
	}
	reads := http.NewServeMux()
	registerHistory(reads, p.History)
	registerQueries(reads, p.Query)
	hiding := hideValues(p.Guard, reads)
	mux.Handle("/api/v1/history", hiding)
	mux.Handle("/api/v1/history/", hiding)
	mux.Handle("/prometheus/", hiding)
	if p.Profiles {
		registerProfiles(mux)
	}
	registerFront(mux, endpointsOf(&p), p.ListFirst)
	return knownHosts(&p, mux)
}

// knownHosts refuses requests that ask for a host which the guard does not know. Probes and scrapers may use any, and so
// may who asks for what envoyproxy/ratelimit serves, in its place.
func knownHosts(p *Parts, h http.Handler) http.Handler {
	open := []string{"/livez", "/readyz", "/metrics"}
	if p.ListFirst {
		open = append(open, "/", "/stats", "/rlconfig", "/debug/pprof/")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(open, r.URL.Path) && !p.Guard.knowsHost(r) {
			http.Error(w, fmt.Sprintf(unlistedHost, hostOf(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hideValues has values of the history replaced by hashes for whoever may not read them.
func hideValues(g *Guard, h http.Handler) http.Handler {
	key := []byte(rand.Text())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.mayRead(r) != nil {
			r = r.WithContext(history.HideValues(r.Context(), key))
		}
		h.ServeHTTP(w, r)
	})
}

func registerHealth(mux *http.ServeMux, readiness Readiness) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "OK")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := readiness.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "OK")
	})
}

func registerProfiles(mux *http.ServeMux) {
	mux.Handle("/debug/pprof/", make(door.Turns, maxLarge).Bound(http.HandlerFunc(pprof.Index)))
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

const maxQuery = 16 << 10 // bytes

// refusal is an error with its HTTP status; the text is a sentence for the client.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// describe returns what to answer to an error; one that is no refusal is a store's, and is introduced.
func describe(err error, introduction string) (status int, text string) {
	var known *refusal
	var asked query.Refusal
	switch {
	case errors.As(err, &known):
		return known.status, known.text
	case errors.As(err, &asked):
		return http.StatusBadRequest, asked.Error()
	}
	return http.StatusServiceUnavailable, introduction + err.Error()
}

// queryOf returns a request's parameters. Its error is a refusal.
func queryOf(r *http.Request) (query.Parameters, error) {
	if len(r.URL.RawQuery) > maxQuery {
		return nil, refuse(http.StatusBadRequest, "The query is longer than %d bytes.", maxQuery)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "The query cannot be read: %v.", err)
	}
	return query.Parameters(values), nil
}
