package admin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirproxy/weir/server/page"
)

// endpointsOf returns what a port of these parts serves, as people are told.
func endpointsOf(p *Parts) []page.Endpoint {
	var served []page.Endpoint
	for _, e := range []struct {
		served bool
		page.Endpoint
	}{
		{true, page.Endpoint{Path: "/livez", What: "200 while the process runs"}},
		{p.Rules != nil, page.Endpoint{Path: "/readyz", What: "200 from the first configuration until a shutdown"}},
		{p.Rules == nil, page.Endpoint{Path: "/readyz", What: "200 while the history can be read"}},
		{true, page.Endpoint{Path: "/metrics", What: "Prometheus metrics"}},
		{p.Stats != nil, page.Endpoint{Path: "/stats", What: "statistics, a line each"}},
		{p.Rules != nil, page.Endpoint{Path: "/rlconfig", What: "the limits in force, a line each"}},
		{p.Rules != nil, page.Endpoint{Path: "/api/v1/rules", What: "the rules in force, with all of their limits"}},
		{p.Counters != nil, page.Endpoint{Path: "/api/v1/counters", Query: "domain=&descriptor=", Asked: true,
			What: "what is counted for a descriptor, as weir counters shows it"}},
		{p.Counters != nil, page.Endpoint{Path: "/api/v1/counters/top", Query: "domain=&path=&by=hits&n=20&from=&to=", Asked: true,
			What: "who takes the most, as weir counters top shows it"}},
		{p.Denials != nil, page.Endpoint{Path: "/api/v1/denials", Query: "domain=&path=&descriptor=&from=&to=&values=false&n=20",
			What: "the last denial of each rule, or those of late, as weir denials shows them"}},
		{true, page.Endpoint{Path: "/api/v1/history", Query: "domain=&path=&outcome=&value=&values=true&from=-1h&to=&points=&step=&tz=",
			What: "hits over time, as weir history show draws them"}},
		{true, page.Endpoint{Path: "/api/v1/history/top", Query: "domain=&path=&value=&values=true&from=-1h&to=&tz=&by=hits&n=20",
			What: "the rules with the most hits"}},
		{true, page.Endpoint{Path: "/api/v1/history/verify", Query: "domain=&path=&outcome=&value=",
			What: "whether each series holds all that it ever counted"}},
		{true, page.Endpoint{Path: "/api/v1/history/export", Query: "format=csv&domain=&path=&outcome=&value=&from=&to=&tz=", Asked: true,
			What: "buckets as CSV or OpenMetrics"}},
		{p.Query != nil, page.Endpoint{Path: "/prometheus/api/v1/", Asked: true,
			What: "the history as Prometheus answers: the address for Grafana is this port's with /prometheus"}},
		{p.Profiles, page.Endpoint{Path: "/debug/pprof/", What: "Go's profiles"}},
	} {
		if e.served {
			served = append(served, e.Endpoint)
		}
	}
	return served
}

// registerFront serves the page for people, and a plain list of what is served for everybody.
func registerFront(mux *http.ServeMux, served []page.Endpoint, listFirst bool) {
	var list strings.Builder
	for _, e := range served {
		fmt.Fprintf(&list, "%-9s  %s\n", e.Name(), e.What)
	}
	showList := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, list.String())
	}
	files := page.Handler(served)
	mux.Handle("GET /page/{file}", files)
	mux.HandleFunc("GET /help", showList)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if listFirst {
			w.Header().Set("Vary", "Accept")
			// Browsers name HTML among what they take, and tools do not.
			if !strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/html") {
				showList(w, r)
				return
			}
		}
		files.ServeHTTP(w, r)
	})
}
