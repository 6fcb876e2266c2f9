package ranking_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/ranking"
)

const shop = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - {requests_per_unit: 10, unit: minute}
      - {requests_per_unit: 500, unit: hour}
    descriptors:
      - {key: path, value: /pay, rate_limit: {requests_per_unit: 4, unit: hour}}
      - {key: path, value: /v1/*, share_threshold: true, rate_limit: {requests_per_unit: 100, unit: hour}}
  - {key: tenant, rate_limit: {requests_per_unit: 100, unit: minute, algorithm: fixed_window}}
  - {key: friend, rate_limit: {unlimited: true}}
`

var noon = time.Date(2026, 11, 21, 12, 0, 33, 0, time.UTC)

// shopOn is a configuration, and a memory store whose clock stands at noon.
func shopOn(t *testing.T) (*descriptors.Config, *memory.Store) {
	t.Helper()
	config := fixture.Config(t, shop, "domain: bank\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 2, unit: minute}}]",
		"domain: free\ndescriptors: [{key: user, rate_limit: {unlimited: true}}]")
	return config, fixture.Memory(t, func() time.Time { return noon })
}

// hit counts hits of a descriptor, written as people do.
func hit(t *testing.T, config *descriptors.Config, on backend.Counter, domain, descriptor string, hits uint64) {
	t.Helper()
	d, err := descriptors.ParseDescriptor(descriptor)
	if err != nil {
		t.Fatal(err)
	}
	m := config.Match(domain, d)
	var out [1]backend.Decision
	if err := backend.DecideAll(t.Context(), on, []backend.Check{{Key: m.AppendKey(nil, domain, d), Limits: m.Rule.Limits, Hits: hits,
		Charge: m.Rule.Charge}}, out[:]); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, config *descriptors.Config, on ranking.Store, q ranking.Question) ranking.Answer {
	t.Helper()
	if q.Rows == 0 {
		q.Rows = 20
	}
	if q.For == 0 {
		q.For = time.Minute
	}
	a, err := ranking.Find(t.Context(), config, on, q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// lines writes rows briefly.
func lines(a ranking.Answer) string {
	var b strings.Builder
	for _, r := range a.Top {
		fmt.Fprintf(&b, "%s %s %s %d %d left %.2f %ds\n", r.Descriptor, r.Path, r.Limit, r.Hits, r.Remaining, r.Share, r.ResetSeconds)
	}
	return b.String()
}

func TestTheFullestComeFirst(t *testing.T) {
	config, store := shopOn(t)
	hit(t, config, store, "shop", "user=ann", 10)
	hit(t, config, store, "shop", "user=bob", 3)
	hit(t, config, store, "shop", "user=ann,path=/pay", 3)
	hit(t, config, store, "shop", "user=ann,path=/v1/a", 20)
	hit(t, config, store, "shop", "user=ann,path=/v1/b", 30)
	hit(t, config, store, "shop", "tenant=t1", 150) // denied, and counted
	hit(t, config, store, "bank", "user=ann", 2)
	m := config.Match("shop", descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/v1/a"}})
	brought := m.Apart(&m.Rule.Limits[0], descriptors.ChargeByAlgorithm)
	if err := store.Decide(t.Context(), []backend.Check{{Limits: m.Rule.Limits, Hits: 1,
		Key: brought.AppendKey(nil, "shop", descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/v1/a"}})}},
		make([]backend.Decision, 1)); err != nil {
		t.Fatal(err)
	}
	a := find(t, config, store, ranking.Question{Domain: "shop"})
	const want = `tenant=t1 tenant 100/minute 150 0 left 1.50 27s
user=ann user 10/minute 10 0 left 1.00 61s
user=ann,path=/pay user/path=%2Fpay 4/hour 3 1 left 0.75 3627s
user=ann,path=/v1/* user/path=%2Fv1%2F* 100/hour 50 50 left 0.50 3627s
user=bob user 10/minute 3 7 left 0.30 61s
`
	if got := lines(a); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if a.Counted != 5 || a.Over != 2 || a.NoRule != 1 || !a.Complete || a.Seen != 7 || a.Held != 7 || a.Unsure != 0 || a.Untold != 0 {
		t.Errorf("%+v; want 5 keys that count, 2 of them over, 1 of no rule, and all 7 of the store seen", a)
	}
	for _, path := range []string{"user/path=/pay", "user/path=%2Fpay"} {
		if a := find(t, config, store, ranking.Question{Domain: "shop", Path: path}); len(a.Top) != 1 || a.Path != "user/path=%2Fpay" {
			t.Errorf("of path %s %d rows are listed, as path %s; want the one, in either form of the path", path, len(a.Top), a.Path)
		}
	}
}

func TestTheFullestOfManyAreExact(t *testing.T) {
	config, store := shopOn(t)
	random := rand.New(rand.NewPCG(1, 2))
	type user struct {
		name string
		hits uint64
	}
	users := make([]user, 3000)
	for i := range users {
		users[i] = user{fmt.Sprintf("tenant=u%04d", i), 1 + random.Uint64N(200)}
		hit(t, config, store, "shop", users[i].name, users[i].hits)
	}
	slices.SortFunc(users, func(a, b user) int { return int(b.hits) - int(a.hits) })
	a := find(t, config, store, ranking.Question{Domain: "shop", Rows: 100})
	if len(a.Top) != 100 {
		t.Fatalf("%d rows are listed, want 100", len(a.Top))
	}
	for i, r := range a.Top {
		if r.Hits != users[i].hits {
			t.Errorf("row %d has %d hits, want %d: the ranking is of all keys, whatever it keeps meanwhile", i, r.Hits, users[i].hits)
		}
	}
}

// bounded is a store of which a glance tells only a bound: twice the hits. It can show its keys twice.
type bounded struct {
	*memory.Store
	times   int
	reads   int
	failing error
}

func (b *bounded) List(ctx context.Context, l backend.Listing) (listed backend.Listed, err error) {
	visit := l.Visit
	l.Visit = func(key []byte, limits []descriptors.Limit, holds []backend.Glance) {
		for i := range holds {
			holds[i] = backend.Glance{Hits: 2 * holds[i].Hits}
		}
		visit(key, limits, holds)
	}
	for range b.times {
		listed, err = b.Store.List(ctx, l)
	}
	return listed, err
}

func (b *bounded) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	if b.reads++; b.failing != nil {
		return nil, b.failing
	}
	return b.Store.Inspect(ctx, key, limits)
}

func TestBoundsAreReadInFullAsFarAsTheyMatter(t *testing.T) {
	config, store := shopOn(t)
	for i := range 200 {
		hit(t, config, store, "shop", fmt.Sprintf("tenant=u%04d", i), uint64(i+1))
	}
	b := &bounded{Store: store, times: 2}
	a := find(t, config, b, ranking.Question{Domain: "shop", Rows: 3})
	const want = `tenant=u0199 tenant 100/minute 200 0 left 2.00 27s
tenant=u0198 tenant 100/minute 199 0 left 1.99 27s
tenant=u0197 tenant 100/minute 198 0 left 1.98 27s
`
	if got := lines(a); got != want || a.Unsure != 0 {
		t.Errorf("got\n%s\n%d unsure; want each key once, by what it holds\n%s", got, a.Unsure, want)
	}
	if b.reads > 110 { // a bound of half of 200 is below the third
		t.Errorf("%d keys were read in full; want only those whose bound is above what is listed", b.reads)
	}
	b.failing = errors.New("redis is down")
	a = find(t, config, b, ranking.Question{Domain: "shop", Rows: 3})
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "redis is down") || a.Unsure < 200 {
		t.Errorf("where nothing can be read: %+v; want the reason, and that all 200 are unsure", a)
	}
}

// away is a store that sees some keys and then fails.
type away struct {
	*memory.Store
	seen uint64
}

func (a *away) List(context.Context, backend.Listing) (backend.Listed, error) {
	return backend.Listed{Seen: a.seen, Held: 9, Complete: true}, errors.New("node 2 is away")
}

func TestAStoreThatIsPartlyAwayIsRankedAsFarAsItIsThere(t *testing.T) {
	config, store := shopOn(t)
	a := find(t, config, &away{store, 5}, ranking.Question{Domain: "shop"})
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "node 2 is away") || a.Complete {
		t.Errorf("%+v; want a warning that names the reason, and not to be complete", a)
	}
	_, err := ranking.Find(t.Context(), config, &away{store, 0}, ranking.Question{Domain: "shop", Rows: 1, For: time.Second})
	if err == nil || err.Error() != "node 2 is away" {
		t.Errorf("where nothing was seen: %v; want the store's error", err)
	}
}

func TestWhatNobodyCountsIsNotRanked(t *testing.T) {
	config, store := shopOn(t)
	for q, want := range map[ranking.Question]string{
		{Domain: "shpo"}:                       "No file configures domain shpo.",
		{Domain: "free"}:                       "No rule of domain free has a limit",
		{Domain: "shop", Path: "friend"}:       "Rule friend of domain shop is unlimited",
		{Domain: "shop", Path: "user/path=/x"}: "No rule of domain shop has the path user/path=/x",
	} {
		q.Rows, q.For = 1, time.Second
		_, err := ranking.Find(t.Context(), config, store, q)
		var unknown ranking.NotFound
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want a NotFound that says %q", q, err, want)
		}
	}
	if a := find(t, config, store, ranking.Question{Domain: "shop"}); len(a.Top) != 0 || !a.Complete {
		t.Errorf("an empty store gives %+v; want no rows, and to be complete", a)
	}
}
