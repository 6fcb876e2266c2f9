package limit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// domainsOf is a configuration of domains with two rules each.
func domainsOf(t testing.TB, names ...string) *descriptors.Config {
	t.Helper()
	var files []string
	for _, name := range names {
		files = append(files, fmt.Sprintf("domain: %q\ndescriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n"+
			"- {key: tenant, value_to_metric: true, rate_limit: {unlimited: true}}\n", name))
	}
	return fixture.Config(t, files...)
}

// requests writes what was counted by domain: bank ok=1 over=2. Results without a request are left out.
func requests(l *limit.Limiter) string {
	var all []string
	for _, d := range l.Requests() {
		text := d.Domain
		for o, n := range d.Results {
			if n > 0 {
				text += fmt.Sprintf(" %s=%d", limit.Result(o), n)
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// try sends a request, whatever comes of it.
func try(l *limit.Limiter, domain string, d ...limit.Descriptor) {
	c := &limit.Call{Request: limit.Request{Domain: domain, Descriptors: d}}
	_ = l.Decide(context.Background(), c)
}

func TestRequestCountsOnceByDomainAndOutcome(t *testing.T) {
	store, _ := newStore(t)
	l := limit.New(store, limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(0))
	ann := one("user", "ann")
	expect := func(want, why string) {
		t.Helper()
		if got := requests(l); got != want {
			t.Errorf("%s: counted is\n%s, want\n%s", why, got, want)
		}
	}
	try(l, "shop", ann)
	expect("", "before the first configuration no domain is unknown")
	l.Apply(domainsOf(t, "bank", "shop"))
	expect("__unknown__, bank, shop", "a domain is there before its first request")
	for range 3 {
		try(l, "shop", ann)
	}
	try(l, "shop")
	try(l, "", ann)
	try(l, "shpo", ann)
	try(l, "another", ann)
	counted := "__unknown__ ok=2, bank, shop ok=1 over=2 invalid=1"
	expect(counted, "each request counts once")
	l.Apply(domainsOf(t, "shop", "__unknown__"))
	expect(counted, "a domain that is gone stays for some minutes")
	try(l, "bank", ann)
	try(l, "shop", ann)
	expect("__unknown__ ok=3, bank, shop ok=1 over=3 invalid=1", "a domain in force goes on")
	l.Apply(descriptors.NewConfig(descriptors.Keys{}, nil, []string{"shop"}))
	try(l, "shop", ann)
	expect("__unknown__ ok=3, bank, shop ok=1 over=3 invalid=1 unavailable=1", "a broken domain is known")
}

// newLogging makes a limiter without a configuration, and where it logs.
func newLogging(t *testing.T) (*limit.Limiter, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return limit.New(fixture.Memory(t, nil), limit.Options{Log: slog.New(slog.NewTextHandler(log, nil))}, hits.New(0)), log
}

// Configurations come and go under requests for a domain that stays and for one that comes and goes, and drains come at
// any time. Whatever the order, each request counts under its domain, and each hit is handed out once.
func TestReloadsLoseNoRequestAndNoHit(t *testing.T) {
	store, _ := newStore(t)
	recorder := hits.New(100)
	l := limit.New(store, limit.Options{Algorithm: descriptors.SlidingWindow}, recorder)
	configs := []*descriptors.Config{domainsOf(t, "shop"), domainsOf(t, "shop", "bank"), domainsOf(t, "shop", "news")}
	l.Apply(configs[0])
	const senders, each = 4, 2000
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for i := range each {
				try(l, "shop", one("tenant", fmt.Sprint(i%200))) // more than are told apart
				try(l, "bank", one("user", fmt.Sprint(i)))
			}
		})
	}
	handed := make(map[string]int)
	drain := func() {
		recorder.Drain(time.Unix(1, 0), func(id history.ID, n uint64) { // at one moment: forgetting is tested in package hits
			if id.Outcome == history.Within || id.Outcome == history.Over {
				handed[id.Domain] += int(n)
			}
		})
	}
	sent := make(chan struct{})
	go func() { sending.Wait(); close(sent) }()
	for i, last := 0, false; !last; i++ {
		select {
		case <-sent:
			last = true
		default:
		}
		l.Apply(configs[i%3])
		drain()
	}
	if got := requests(l); !strings.Contains(got, fmt.Sprintf("shop ok=%d", senders*each)) {
		t.Errorf("counted is %s, want each of %d requests under shop", got, senders*each)
	}
	if others := handed["bank"] + handed[descriptors.UnknownDomainName]; handed["shop"] != senders*each || others != senders*each {
		t.Errorf("handed out are %v, want %d hits of shop, and as many of bank or of an unknown domain", handed, senders*each)
	}
}

func TestUnknownDomainIsLoggedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newLogging(t)
		expect := func(want, why string) {
			t.Helper()
			got := log.String()
			log.Reset()
			if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Count(got, "\n") > 1 || len(got) > 1000 || strings.Contains(got, "\x1b") {
				t.Errorf("%s: logged is %q, want one line with %q", why, got, want)
			}
		}
		try(l, "shpo", one("user", "ann"))
		expect("", "before the first configuration nothing is unknown")
		l.Apply(domainsOf(t, "shop", "bank"))
		try(l, "shop", one("user", "ann"))
		expect("", "a domain that is known")
		l.Apply(descriptors.NewConfig(descriptors.Keys{}, nil, []string{"news"}))
		try(l, "news", one("user", "ann"))
		expect("", "a domain that is known, though its files are broken")
		l.Apply(domainsOf(t, "shop", "bank"))
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() { try(l, "shpo", one("user", "ann")) })
		}
		asking.Wait()
		expect("level=WARN", "a misspelt domain")
		time.Sleep(time.Minute)
		try(l, "shpo", one("user", "ann"))
		expect("The configured ones are bank, shop.", "a minute later")
		time.Sleep(time.Minute)
		try(l, "a\x1b[31m\nb"+strings.Repeat("x", 5000), one("user", "ann"))
		expect("domain=", "a name that is no name")
	})
}
