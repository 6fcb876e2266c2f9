package admin

import (
	"net/http"

	"github.com/weirproxy/weir/server/curves"
)

// registerQueries serves /prometheus/, or answers there as Prometheus does that there is nothing if h is nil.
func registerQueries(mux *http.ServeMux, h http.Handler) {
	if h == nil {
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusNotFound)
			_ = curves.WriteJSON(w, map[string]string{"status": "error", "errorType": "not_found",
				"error": "This weir answers no queries: it keeps no history, or HISTORY_QUERY=false is set."})
		})
	}
	mux.Handle("/prometheus/", h)
}
