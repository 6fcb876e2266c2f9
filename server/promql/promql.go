// Package promql serves the history of hits by Prometheus's HTTP API, for Grafana and other clients. API.md describes it.
// Package engine evaluates the queries.
package promql

import (
	"cmp"
	"net/http"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/weirproxy/weir/server/connlimit"
	"github.com/weirproxy/weir/server/promql/engine"
)

// Config configures a handler.
type Config struct {
	engine.Config
	// Version is the version of weir.
	Version string
	// Concurrency is the most queries that are being evaluated or answered; 0 is 1. Together they may hold that many times
	// the memory that the engine allows each.
	Concurrency int
}

// Handler answers requests below /prometheus/. It may be used concurrently.
type Handler struct {
	config    Config
	engine    *engine.Engine
	parser    parser.Parser
	mux       *http.ServeMux
	semaphore connlimit.Semaphore // of requests that read the history or parse a query
}

// NewHandler returns a handler.
func NewHandler(c Config) *Handler {
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	h := &Handler{config: c, engine: engine.New(c.Config), parser: engine.NewParser(), mux: http.NewServeMux(),
		semaphore: make(connlimit.Semaphore, c.Concurrency)}
	const api = "/prometheus/api/v1/"
	for path, serve := range map[string]func(*request) *answer{
		"query": h.query, "query_range": h.queryRange, "series": h.series, "labels": h.labels,
	} {
		h.mux.HandleFunc("GET "+api+path, h.bounded(serve))
		h.mux.HandleFunc("POST "+api+path, h.bounded(serve))
	}
	h.getOnly(api+"label/{name}/values", h.bounded(h.labelValues))
	h.mux.HandleFunc("GET "+api+"query_exemplars", h.unbounded(constant("[]")))
	h.mux.HandleFunc("POST "+api+"query_exemplars", h.unbounded(constant("[]")))
	for path, serve := range map[string]func(*request) *answer{
		"metadata": metadata, "status/buildinfo": h.buildInfo,
		"rules": constant(`{"groups":[]}`), "alerts": constant(`{"alerts":[]}`),
		"targets":       constant(`{"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":{}}`),
		"alertmanagers": constant(`{"activeAlertmanagers":[],"droppedAlertmanagers":[]}`),
	} {
		h.getOnly(api+path, h.unbounded(serve))
	}
	h.mux.HandleFunc("/prometheus/", h.unbounded(func(r *request) *answer {
		return refuse(notFound, "%s %s is not among the parts of Prometheus's API that weir has: queries, series, labels and "+
			"metadata below %s", r.Method, clip(r.URL.Path), api)
	}))
	return h
}

// Off returns a handler that answers each request with the reason why no history is queried, as an error of Prometheus's.
func Off(reason string) http.Handler {
	var h Handler
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		h.write(w, refuse(notFound, "%s", reason))
	})
}

// getOnly serves a path for GET. Grafana tries POST first, and needs the status 405.
func (h *Handler) getOnly(path string, serve http.HandlerFunc) {
	h.mux.HandleFunc("GET "+path, serve)
	h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		h.write(w, refuse(notAllowed, "%s is not allowed here: use GET", clip(r.Method)))
	})
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	h.mux.ServeHTTP(w, r)
}
