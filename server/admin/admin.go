// Package admin is the operator's port: whether the process lives, whether it wants traffic, and its metrics.
package admin

import (
	"fmt"
	"net/http"
)

// Readiness says why the process should get no traffic, nil if it should.
type Readiness interface {
	Ready() error
}

// Handler serves /livez, /readyz and /metrics, and lists them on /.
func Handler(r Readiness, metrics http.Handler) http.Handler {
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
			"/metrics  Prometheus metrics\n")
	})
	return mux
}
