// Package ranking finds the keys that are closest to their limits now, or over them.
package ranking

import (
	"context"
	"fmt"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// MaxRows is how many keys are listed at most.
	MaxRows = 1000
	// DefaultRows is how many are listed where nobody says how many.
	DefaultRows = 20
	// MinFor and MaxFor bound how long a store is looked at, and DefaultFor is for those who do not say.
	MinFor, DefaultFor, MaxFor = 100 * time.Millisecond, 2 * time.Second, time.Minute
	// maxPending is how many keys are remembered that may be among the fullest, until they are read in full.
	maxPending = 1000
	// rest is how many times as long as reading a key took its store is then left alone.
	rest = 3
)

// Store has the keys that are ranked. Every counter of weir's is one.
type Store interface {
	backend.Lister
	backend.Inspector
}

// Question is what is to be ranked.
type Question struct {
	Domain string
	Path   string        // of a rule, as it is stored or as people are shown it; "" for all rules of the domain
	Rows   int           // from 1 to MaxRows
	For    time.Duration // how long to look, from MinFor to MaxFor
}

// NotFound is the error of a question about what no rule counts: a sentence that says why.
type NotFound string

// Error returns the sentence.
func (n NotFound) Error() string { return string(n) }

// Answer is the fullest keys of a domain or rule, and what share of the store was seen to find them.
type Answer struct {
	Domain   string `json:"domain"`
	Path     string `json:"path"`     // as it is stored; "" for all
	Complete bool   `json:"complete"` // all keys were seen
	Seen     uint64 `json:"seen"`     // keys of the store, of any domain; in Redis other programs' too
	Held     uint64 `json:"held"`     // keys that the store has, likewise
	// Counted is how many of the keys seen are counted by the rules that were asked for, and hold hits; Over how many of
	// these have nothing left.
	Counted uint64 `json:"counted"`
	Over    uint64 `json:"over"`
	// Unsure is how many keys may be as full as those listed, or fuller: only a bound of their hits is known.
	Unsure uint64 `json:"unsure"`
	// NoRule is how many keys of the domain no rule counts: a request brought its limit, or a former rule did.
	NoRule uint64 `json:"no_rule"`
	// Untold is how many keys do not tell what they count, as all that is known of them is a hash.
	Untold   uint64   `json:"untold"`
	Seconds  float64  `json:"seconds"` // that it took
	Warnings []string `json:"warnings"`
	Top      []Row    `json:"top"` // the fullest first
}

// Row is one key, with the fullest of its limits.
type Row struct {
	Descriptor string `json:"descriptor"`
	// Hashed means that a part of the descriptor is known by its hash alone, Shared that a pattern stands for all values
	// that fit it, Ambiguous that another descriptor may be meant as well: envoyproxy/ratelimit's keys do not tell.
	Hashed       bool    `json:"hashed,omitempty"`
	Shared       bool    `json:"shared,omitempty"`
	Ambiguous    bool    `json:"ambiguous,omitempty"`
	Path         string  `json:"path"`
	Limit        string  `json:"limit"` // 10/minute
	Algorithm    string  `json:"algorithm"`
	Burst        uint64  `json:"burst,omitempty"` // of a token_bucket
	Hits         uint64  `json:"hits"`
	Remaining    uint64  `json:"remaining"`
	Share        float64 `json:"share"`         // of the limit that is used; above 1 where denied hits are counted
	ResetSeconds int64   `json:"reset_seconds"` // until the oldest bucket leaves or the next hit leaks, rounded up
}

// Find ranks the keys of a store by the share of their limits that is used. Its error is a NotFound, or tells of a store
// that showed nothing; the parts of it that could not be seen are among the warnings.
func Find(ctx context.Context, config *descriptors.Config, store Store, q Question) (Answer, error) {
	began := time.Now()
	path, err := findRule(config, q)
	if err != nil {
		return Answer{}, err
	}
	f := &finder{config: config, store: store, domain: q.Domain, path: path, top: newBoard(q.Rows), pending: newBoard(maxPending)}
	reserve := q.For / 4 // for reading what a glance does not tell
	listed, err := store.List(ctx, backend.Listing{For: q.For - reserve, Limits: f.limits, Visit: f.visit})
	if ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	if err != nil && listed.Seen == 0 {
		return Answer{}, err
	}
	a := Answer{Domain: q.Domain, Path: path, Complete: listed.Complete && err == nil, Seen: listed.Seen, Held: listed.Held,
		Warnings: []string{}}
	if err != nil {
		a.Warnings = append(a.Warnings, fmt.Sprintf("Not all was seen: %v.", err))
	}
	if listed.Unread > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf(
			"%d keys could not be read: they moved to another server, or hold what no counter holds.", listed.Unread))
	}
	if err := f.readPending(ctx, began.Add(q.For)); err != nil {
		a.Warnings = append(a.Warnings, fmt.Sprintf("Not all keys could be read in full: %v.", err))
	}
	f.fill(&a)
	a.Seconds = time.Since(began).Seconds()
	return a, ctx.Err()
}

// findRule returns the path of the rule that is asked for, as it is stored.
func findRule(config *descriptors.Config, q Question) (path string, err error) {
	counts, known := false, false
	for _, r := range config.Rules() {
		if r.Domain != q.Domain || q.Path != "" && !descriptors.SamePath(r.Path, q.Path) {
			continue
		}
		if known = true; q.Path != "" {
			path = r.Path
		}
		counts = counts || len(r.Limits) > 0
	}
	found := config.Match(q.Domain, nil).Found
	switch {
	case counts:
		return path, nil
	case found == descriptors.UnknownDomain || found == descriptors.BrokenDomain:
		return "", NotFound(config.Explain(q.Domain, nil).Reason)
	case known && q.Path != "":
		return "", NotFound(fmt.Sprintf("Rule %s of domain %s is unlimited, so nothing is counted for it.",
			descriptors.Shown(descriptors.ReadablePath(path)), descriptors.Shown(q.Domain)))
	case q.Path != "":
		return "", NotFound(config.MissingPath(q.Domain, q.Path))
	}
	return "", NotFound(fmt.Sprintf("No rule of domain %s has a limit, so nothing is counted.", descriptors.Shown(q.Domain)))
}
