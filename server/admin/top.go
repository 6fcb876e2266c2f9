package admin

import (
	"net/http"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/ranking"
)

// maxPatience is how long a question about the fullest keys waits for the one before it.
const maxPatience = 2 * time.Second

// errAsked tells a client to come again when most questions are answered.
var errAsked = busy(maxPatience,
	"Another question about the fullest keys is being answered, and one is enough for the store: ask again once it is.")

// topHandler answers one question at a time.
func (c *Counters) topHandler(g *Guard) http.HandlerFunc {
	asked := make(chan struct{}, 1) // has a token while a question is answered
	return serveJSON("The counters cannot be listed: ", func(w http.ResponseWriter, r *http.Request) (any, error) {
		if err := g.mayRead(r); err != nil {
			return nil, err
		}
		values, err := queryWith(r, "domain", "path", "n", "for")
		if err != nil {
			return nil, err
		}
		config := c.Rules.Config()
		q, err := readTop(values, config)
		if err != nil {
			return nil, err
		}
		select {
		case asked <- struct{}{}:
			defer func() { <-asked }()
		case <-time.After(maxPatience): // several people may look at the page
			return nil, errAsked
		}
		// The server's own bounds are shorter than the longest question. A server that cannot be told keeps them.
		until, control := time.Now().Add(q.For+maxReadingTime), http.NewResponseController(w)
		_, _ = control.SetReadDeadline(until), control.SetWriteDeadline(until)
		return ranking.Find(r.Context(), config, c.Store, q)
	})
}

func readTop(values query.Parameters, config *descriptors.Config) (q ranking.Question, err error) {
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
	if config == nil {
		return q, errUnconfigured
	}
	if names := config.DomainNames(); q.Domain == "" {
		if len(names) != 1 {
			return q, refuse(http.StatusBadRequest, "domain is missing: name one of %s.", descriptors.Listed(names))
		}
		q.Domain = names[0]
	}
	return q, nil
}
