package server

import (
	"mime"
	"net/http"
)

// nosniff keeps browsers from guessing a content type.
func nosniff(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}

// httpHandler serves /healthcheck and /json as envoyproxy/ratelimit does. A failing /healthcheck restarts processes,
// so it fails only while the process drains, or if health depends on the store and the store is away.
func httpHandler(c Config, p Parts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Health.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("OK")) // the client is gone if this fails
	})
	json := guardJSON(c, p.Service)
	if p.Trace != nil {
		json = p.Trace.HTTP(json)
	}
	mux.Handle("/json", json)
	return mux
}

// guardJSON refuses requests from browsers: otherwise any web page could use its reader's browser to reach the port
// inside the reader's network.
func guardJSON(c Config, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case c.NoJSON != "":
			http.Error(w, c.NoJSON, http.StatusForbidden)
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			http.Error(w, "/json is for tools, not for web pages: it takes nothing with Origin or Sec-Fetch-Site.", http.StatusForbidden)
		case mediaType != "application/json" && !c.AnyJSONType:
			http.Error(w, "/json takes a RateLimitRequest in JSON: send it with Content-Type: application/json.",
				http.StatusUnsupportedMediaType)
		default:
			h.ServeHTTP(w, r)
		}
	})
}
