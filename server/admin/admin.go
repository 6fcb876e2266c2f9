// Package admin serves the admin port: liveness, readiness, metrics, counters, and the history of hits.
package admin

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/connlimit"
	historyapi "github.com/weirproxy/weir/server/history"
	"github.com/weirproxy/weir/server/page"
	"github.com/weirproxy/weir/server/rlqs"
)

// Parts are the parts of weir that the port serves. Endpoints of nil parts are not served, unless the field says
// otherwise.
type Parts struct {
	Ready   func() error  // why the process should get no traffic, nil if it should
	Warning func() string // lines about problems of a process that is ready; may be nil
	Metrics http.Handler
	Stats   http.Handler // envoyproxy/ratelimit's statistics as text
	Rules   Rules        // nil: no rules are listed
	// Loaded returns when the configuration in force was loaded, zero before the first. Rules need it.
	Loaded   func() time.Time
	Counters *Counters           // nil: nothing is limited here, as in weir history serve
	Denials  *Denials            // likewise
	Quotas   *rlqs.Service       // nil: the answer is 404
	History  *historyapi.History // nil: the answer is 404, and NoHistory
	// NoHistory says which variable to set for a history.
	NoHistory string
	Query     http.Handler // /prometheus/
	Access    *Access
	// LikeRatelimit serves envoyproxy/ratelimit's endpoints for any host name, and /help on unknown paths, and on / to
	// clients that do not accept HTML.
	LikeRatelimit bool
	// Profiles serves Go's profiles, with which any client of the port can slow the process down.
	Profiles bool
}

// maxRuleAnswers is how many answers about rules may be made or read concurrently, maxProfiles how many profiles.
const maxRuleAnswers, maxProfiles = 4, 4

// Handler serves the parts, the web page on /, and a list of all endpoints on /help.
func Handler(p Parts) http.Handler {
	mux := http.NewServeMux()
	registerHealth(mux, &p)
	mux.Handle("GET /metrics", make(connlimit.Semaphore, connlimit.Scrapes).Bound(p.Metrics, connlimit.ScrapeTimeout))
	semaphore := make(connlimit.Semaphore, maxRuleAnswers)
	handle := func(pattern string, h http.Handler) { mux.Handle(pattern, semaphore.Bound(h, connlimit.ReadTimeout)) }
	if p.Stats != nil {
		handle("GET /stats", p.Stats)
	}
	if p.Rules != nil {
		handle("GET /rlconfig", rlconfigHandler(p.Rules))
	}
	handle("GET /api/v1/rules", rulesHandler(&p))
	if p.Counters != nil {
		p.Counters.register(mux, &p)
	} else {
		mux.HandleFunc("/api/v1/counters", noLimiter)
		mux.HandleFunc("/api/v1/counters/", noLimiter)
	}
	if p.Denials != nil {
		handle("GET /api/v1/denials", p.Denials.handler(p.Access))
	} else {
		mux.HandleFunc("/api/v1/denials", noLimiter)
	}
	handle("GET /api/v1/quota", quotaHandler(p.Quotas, p.Access))
	historyMux := http.NewServeMux()
	registerHistory(historyMux, &p)
	if p.Query != nil {
		historyMux.Handle("/prometheus/", p.Query)
	}
	hiding := hideValues(p.Access, historyMux)
	for _, pattern := range []string{"/api/v1/history", "/api/v1/history/", "/prometheus/"} {
		mux.Handle(pattern, hiding)
	}
	if p.Profiles {
		registerProfiles(mux)
	}
	registerPage(mux, p.LikeRatelimit)
	return refuseUnknownHosts(&p, mux)
}

// noLimiter answers for endpoints of a limiter in a process without one.
func noLimiter(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "weir history serve has no denials or counters: ask a weir serve.", http.StatusNotFound)
}

// refuseUnknownHosts refuses requests for a host that Access does not allow, except those of probes and scrapers. With
// LikeRatelimit it also allows envoyproxy/ratelimit's endpoints, and answers any other path with the list of endpoints,
// as probes of /healthcheck expect it.
func refuseUnknownHosts(p *Parts, mux *http.ServeMux) http.Handler {
	open := []string{"/livez", "/readyz", "/metrics"}
	if p.LikeRatelimit {
		open = append(open, "/", "/stats", "/rlconfig", "/debug/pprof/")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" && p.LikeRatelimit && !weirPath.MatchString(r.URL.Path) {
			page.Help(w, r)
			return
		}
		if !slices.Contains(open, r.URL.Path) && !p.Access.allowsHost(r) {
			http.Error(w, fmt.Sprintf(unknownHost, hostOf(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// weirPath matches paths that envoyproxy/ratelimit lacks, and its profiles, which may be off.
var weirPath = regexp.MustCompile(`^/(api|page|prometheus|debug)(/|$)`)

// hideValues replaces values of the history by hashes for clients that may not read them.
func hideValues(access *Access, h http.Handler) http.Handler {
	key := []byte(rand.Text())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.mayRead(r) != nil {
			r = r.WithContext(history.HideValues(r.Context(), key))
		}
		h.ServeHTTP(w, r)
	})
}

func registerHealth(mux *http.ServeMux, p *Parts) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "OK")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "OK")
		if p.Warning != nil {
			fmt.Fprint(w, p.Warning())
		}
	})
}

// registerPage serves the web page, and the list of endpoints.
func registerPage(mux *http.ServeMux, likeRatelimit bool) {
	files := page.Handler()
	mux.Handle("GET /page/{file}", files)
	mux.HandleFunc("GET /help", page.Help)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if likeRatelimit {
			w.Header().Set("Vary", "Accept")
			// Browsers accept HTML explicitly, tools do not.
			if !strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/html") {
				page.Help(w, r)
				return
			}
		}
		files.ServeHTTP(w, r)
	})
}

func registerProfiles(mux *http.ServeMux) {
	mux.Handle("/debug/pprof/", make(connlimit.Semaphore, maxProfiles).Bound(http.HandlerFunc(pprof.Index), connlimit.ProfileTimeout))
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
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// writeError answers with an error. A store's error follows the introduction; a refusal is a sentence of its own.
// Answers of status 503 have Retry-After.
func writeError(w http.ResponseWriter, err error, introduction string) {
	var known *refusal
	var asked historyapi.Refusal
	status, text := http.StatusServiceUnavailable, introduction+err.Error()
	switch {
	case errors.As(err, &known):
		status, text = known.status, known.text
	case errors.As(err, &asked):
		status, text = http.StatusBadRequest, asked.Error()
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(queueTimeout.Seconds())))
	}
	http.Error(w, text, status)
}

// serveJSON returns a handler that writes answers as JSON, and errors as [writeError] does.
func serveJSON(introduction string, answer func(w http.ResponseWriter, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := answer(w, r)
		if err != nil {
			writeError(w, err, introduction)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, a)
	}
}

// writeJSON writes a line of JSON, with <, > and & unescaped. It fails only if the client is gone.
func writeJSON(w io.Writer, answer any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer)
}

// parametersOf returns a request's parameters. Its error is a refusal.
func parametersOf(r *http.Request) (historyapi.Parameters, error) {
	if len(r.URL.RawQuery) > maxQuery {
		return nil, refuse(http.StatusBadRequest, "The query is longer than %d bytes.", maxQuery)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "The query cannot be read: %v.", err)
	}
	return historyapi.Parameters(values), nil
}

// parametersOnly returns a request's parameters, and refuses names other than these. Its error is a refusal.
func parametersOnly(r *http.Request, names ...string) (historyapi.Parameters, error) {
	parameters, err := parametersOf(r)
	if err != nil {
		return nil, err
	}
	return parameters, parameters.Check(names...)
}
