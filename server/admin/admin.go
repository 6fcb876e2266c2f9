// Package admin is the operator's port: whether the process lives, whether it wants traffic, its metrics, and its counters.
package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
)

// Readiness says why the process should get no traffic, nil if it should.
type Readiness interface {
	Ready() error
}

// Handler serves /livez, /readyz and /metrics, and lists them on /. If c is not nil it serves /api/v1/counters. With
// profiles it serves /debug/pprof/ too, which lets whoever reaches the port slow the process down.
func Handler(r Readiness, metrics http.Handler, c *Counters, profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "OK")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := r.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "OK")
	})
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "/livez    200 while the process runs\n"+
			"/readyz   200 from the first configuration until a shutdown\n"+
			"/metrics  Prometheus metrics\n"+
			"/api/v1/counters?domain=&descriptor=  what is counted for a descriptor, as weir counters shows it\n")
	})
	if c != nil {
		c.register(mux)
	}
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
