package admin

import (
	"net/http"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
	historyapi "github.com/weirproxy/weir/server/history"
)

// How many denials are listed by default, and at most.
const defaultDenials, maxDenials = 20, 1000

// Denials serves GET /api/v1/denials: the last denial of each rule, newest first, or recent denials by minute and
// descriptor. Values of descriptors, which may be personal, are returned only on request. All fields are required.
type Denials struct {
	Recorder *denials.Recorder
	Rules    Rules
	Since    time.Time        // when the recorder was made
	Now      func() time.Time // the clock of the denials
}

// DenialsAnswer is the answer of /api/v1/denials.
type DenialsAnswer struct {
	Since   float64        `json:"since"` // Unix seconds; earlier denials are unknown
	Now     float64        `json:"now"`   // Unix seconds, of this answer
	Denials []DenialAnswer `json:"denials"`
	More    int            `json:"more"`           // how many Denials or Recent are left out
	Name    string         `json:"name,omitempty"` // of this weir
	*RecentAnswer
}

// RecentAnswer takes the place of Denials if a descriptor or a time was requested.
type RecentAnswer struct {
	From      float64        `json:"from"` // Unix seconds; 0 for all stored ones
	To        float64        `json:"to"`
	KeptSince float64        `json:"kept_since"` // earlier denials may be missing
	Recent    []DenialAnswer `json:"recent"`
}

// DenialAnswer sums up denials: all of a rule or, in Recent, those of a rule, a minute and a descriptor (or, without
// values, several descriptors). The fields about one denial are those of the last.
type DenialAnswer struct {
	First        float64 `json:"first,omitempty"` // Unix seconds, of Recent
	At           float64 `json:"at"`              // Unix seconds, of the last
	Domain       string  `json:"domain"`
	Path         string  `json:"path"`  // the stored form
	Limit        string  `json:"limit"` // 10/minute
	Name         string  `json:"name,omitempty"`
	Algorithm    string  `json:"algorithm"`
	Hits         uint64  `json:"hits"`             // requested by the last
	Count        uint64  `json:"count"`            // hits that counted then
	RetrySeconds *int64  `json:"retry_seconds"`    // from now, until a request like the last would pass; null for never
	DecidedBy    string  `json:"decided_by"`       // store, deny_cache, look, local, policy
	Shadow       bool    `json:"shadow,omitempty"` // shadow mode let it pass
	Quota        bool    `json:"quota,omitempty"`
	Override     bool    `json:"override,omitempty"` // the limit came with the request
	OverRequests uint64  `json:"over_requests"`      // since the start, over the limit: denied, unless in shadow mode
	OverHits     uint64  `json:"over_hits"`
	Weir         string  `json:"weir,omitempty"`        // of Recent: the weir that stored it, before this one began
	Descriptors  int     `json:"descriptors,omitempty"` // of Recent: how many descriptors it sums up
	Descriptor   string  `json:"descriptor,omitempty"`  // of the last, if values were requested
}

func (d *Denials) handler(access *Access) http.HandlerFunc {
	return serveJSON("", func(_ http.ResponseWriter, r *http.Request) (any, error) { return d.answer(r, access) })
}

func (d *Denials) answer(r *http.Request, access *Access) (*DenialsAnswer, error) {
	parameters, err := parametersOnly(r, "domain", "path", "values", "n", "descriptor", "from", "to")
	if err != nil {
		return nil, err
	}
	now := d.Now()
	f, n, err := filterOf(parameters, now)
	if err == nil && (f.Values || f.Descriptor != nil) { // finding a denial by a value reveals the value
		err = access.mayRead(r)
	}
	if err != nil {
		return nil, err
	}
	a := &DenialsAnswer{Name: d.Recorder.Weir, Since: seconds(d.Since), Now: seconds(now), Denials: []DenialAnswer{}}
	var all []denials.Summary
	if f.To.IsZero() {
		all = d.Recorder.List(f)
		a.More = max(0, len(all)-n)
		a.Denials = denialAnswers(all[:len(all)-a.More], now)
	} else {
		var since time.Time
		all, a.More, since = d.Recorder.Recent(f, n)
		kept := max(a.Since, seconds(since))
		a.RecentAnswer = &RecentAnswer{From: seconds(f.From), To: seconds(f.To), KeptSince: kept, Recent: denialAnswers(all, now)}
	}
	if config := d.Rules.Config(); len(all) == 0 && config != nil { // a rule that does not exist never denies
		if _, err := ruleAt(config, f.Domain, f.Path); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// filterOf reads the filter, and how many denials to list.
func filterOf(parameters historyapi.Parameters, now time.Time) (f denials.Filter, n int, err error) {
	f = denials.Filter{Domain: parameters.Get("domain"), Path: parameters.Get("path")}
	if n, err = parameters.Number("n", defaultDenials, maxDenials); err != nil {
		return f, 0, err
	}
	if text := parameters.Get("descriptor"); text != "" {
		if f.Descriptor, err = descriptors.ParseDescriptor(text); err != nil {
			return f, 0, refuse(http.StatusBadRequest, "descriptor: %v.", err)
		}
	}
	if from := parameters.Get("from"); f.Descriptor != nil || from+parameters.Get("to") != "" {
		asked, err := parameters.Range("from", "to", now, time.UTC)
		if err != nil {
			return f, 0, err
		}
		if from == "" {
			asked.From = 0 // all recorded denials
		}
		f.From, f.To = time.Unix(asked.From, 0), time.Unix(asked.To, 0)
	}
	f.Values, err = parameters.Bool("values", false)
	return f, n, err
}

func denialAnswers(all []denials.Summary, now time.Time) []DenialAnswer {
	answers := make([]DenialAnswer, len(all))
	for i := range all {
		s, a := &all[i], &answers[i]
		last := &s.Last
		*a = DenialAnswer{
			At: seconds(last.At), Domain: s.Domain, Path: s.Path, Limit: last.Limit.String(), Name: last.Limit.Name,
			Algorithm: last.Limit.Algorithm.String(), Hits: last.Hits, Count: last.Count, DecidedBy: last.Source.String(), Shadow: s.Shadow,
			Quota: last.Quota, Override: last.Override, OverRequests: s.Requests, OverHits: s.Hits, Descriptors: s.Descriptors,
			Weir: s.Weir, Descriptor: s.Descriptor,
		}
		if !s.First.IsZero() {
			a.First = seconds(s.First)
		}
		if wait := last.RetryAfter(now); wait != backend.Never {
			whole := int64((wait + time.Second - 1) / time.Second) // rounded up, so that a client that waits as long is not too early
			a.RetrySeconds = &whole
		}
	}
	return answers
}

// seconds returns a time in Unix seconds, to the microsecond.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
