package admin

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/ranking"
)

// Top serves /api/v1/counters/top: the keys of a domain or rule that are closest to their limits, or over them. One
// question is answered at a time.
type Top struct {
	Rules Rules
	Store ranking.Store

	asked chan struct{} // has a token while a question is answered
}

// topPause is after how many seconds a client that was refused may come again: most questions are answered by then.
const topPause = 2

var errAsked = refuse(http.StatusServiceUnavailable,
	"Another question about the fullest keys is being answered, and one is enough for the store: ask again once it is.")

func (t *Top) register(mux *http.ServeMux, g *Guard) {
	t.asked = make(chan struct{}, 1)
	mux.HandleFunc("GET /api/v1/counters/top", func(w http.ResponseWriter, r *http.Request) { t.serve(w, r, g) })
}

func (t *Top) serve(w http.ResponseWriter, r *http.Request, g *Guard) {
	var a ranking.Answer
	err := g.mayRead(r)
	if err == nil {
		a, err = t.answer(w, r)
	}
	if err != nil {
		var unknown ranking.NotFound
		if errors.As(err, &unknown) {
			err = refuse(http.StatusNotFound, "%s", unknown.Error())
		}
		if errors.Is(err, errAsked) {
			w.Header().Set("Retry-After", strconv.Itoa(topPause))
		}
		status, text := describe(err, "The counters cannot be listed: ")
		http.Error(w, text, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = query.WriteJSON(w, a) // the client is gone if this fails
}

func (t *Top) answer(w http.ResponseWriter, r *http.Request) (a ranking.Answer, err error) {
	values, err := queryOf(r)
	if err != nil {
		return a, err
	}
	q, err := readTop(values)
	if err != nil {
		return a, err
	}
	config := t.Rules.Config()
	if config == nil {
		return a, refuse(http.StatusServiceUnavailable, "No rate limit configuration is loaded yet.")
	}
	if q.Domain == "" {
		names := config.DomainNames()
		if len(names) != 1 {
			return a, refuse(http.StatusBadRequest, "domain is missing: name one of %s.", descriptors.Listed(names))
		}
		q.Domain = names[0]
	}
	select {
	case t.asked <- struct{}{}:
		defer func() { <-t.asked }()
	default:
		return a, errAsked
	}
	// The server's own bounds are shorter than the longest question. A server that cannot be told keeps them.
	until, control := time.Now().Add(q.For+maxReadingTime), http.NewResponseController(w)
	_, _ = control.SetReadDeadline(until), control.SetWriteDeadline(until)
	return ranking.Find(r.Context(), config, t.Store, q)
}

func readTop(values query.Parameters) (q ranking.Question, err error) {
	if err := values.Check("domain", "path", "n", "for"); err != nil {
		return q, err
	}
	q = ranking.Question{Domain: values.Get("domain"), Path: values.Get("path"), For: ranking.DefaultFor}
	if q.Rows, err = values.Number("n", ranking.DefaultRows, ranking.MaxRows); err != nil {
		return q, err
	}
	if text := values.Get("for"); text != "" {
		if q.For, err = time.ParseDuration(text); err != nil || q.For < ranking.MinFor || q.For > ranking.MaxFor {
			return q, refuse(http.StatusBadRequest, "for must be a time from %v to %v, such as 10s, not %q.",
				ranking.MinFor, ranking.MaxFor, text)
		}
	}
	return q, nil
}
