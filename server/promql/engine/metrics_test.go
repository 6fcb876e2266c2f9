package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// rules are what is in force in the tests.
func rules() []*descriptors.Rule {
	minutely := descriptors.Limit{Requests: 10, Window: time.Minute, Unit: descriptors.Minute, Multiplier: 1}
	alike := minutely
	alike.Algorithm = descriptors.FixedWindow
	return []*descriptors.Rule{{Domain: "shop", Path: "user", Limits: []descriptors.Limit{minutely, alike,
		{Requests: 500, Window: time.Hour, Unit: descriptors.Hour, Multiplier: 1}}}, {Domain: "mail", Path: "free", Unlimited: true}}
}

// few is a small history of all metrics.
func few(t testing.TB) (*past, *Engine) {
	p := newPast(t, history.DefaultRetention())
	m := p.clock.Load()/minute - 10
	for n, id := range []history.ID{{Domain: "shop", Path: "user"}, {Domain: "shop", Path: "user", Outcome: history.Over},
		{Domain: "shop", Path: "user", Outcome: history.Near}, {Domain: "shop", Path: "user", Outcome: history.Shadow},
		{Domain: "shop", Path: "user", Outcome: history.Degraded, Value: "ann"}, {Domain: "mail", Path: "path=%2F", Value: "{x=\"y\"}\n"},
		{Domain: "", Path: ""}} {
		p.count(history.Increment{ID: id, Minute: m, Hits: uint64(n) + 1}, history.Increment{ID: id, Minute: m + 2, Hits: 1})
	}
	return p, p.engine(func(c *Config) { c.Rules = rules })
}

func TestPathsAndValuesTakeBothSpellings(t *testing.T) {
	p := newPast(t, history.DefaultRetention())
	m := p.clock.Load()/minute - 10
	for _, id := range []history.ID{{Domain: "shop", Path: "user/path=%2Fpay", Value: "user=ann"}, {Domain: "shop", Path: "user/path=%2Fpay"},
		{Domain: "shop", Path: "tenant", Value: "tenant=a%2Fb"}, {Domain: "shop", Path: "path=%2F*", Value: "path=%2Fx"},
		{Domain: "mail", Path: "from/to", Value: "to=bob"}, {Domain: "mail", Path: "from", Value: "from=a,to=b"},
		{Domain: "mail", Path: "from", Value: history.OtherValue}} {
		p.count(history.Increment{ID: id, Minute: m, Hits: 1})
	}
	e := p.engine(func(c *Config) {
		c.Rules = func() []*descriptors.Rule {
			return []*descriptors.Rule{{Domain: "shop", Path: "user/path=%2Fpay", Limits: []descriptors.Limit{{Requests: 10, Window: time.Minute}}}}
		}
	})
	for matchers, want := range map[string]string{
		`path="user/path=/pay"`:                "user/path=%2Fpay|, user/path=%2Fpay|ann",
		`path="user/path=%2Fpay"`:              "user/path=%2Fpay|, user/path=%2Fpay|ann",
		`path="user/path=/pay",value=""`:       "user/path=%2Fpay|",
		`path="user/path=/pay",value="ann"`:    "user/path=%2Fpay|ann",
		`path=~"user/path=/p.y|x"`:             "user/path=%2Fpay|, user/path=%2Fpay|ann",
		`path!="user/path=/pay",domain="shop"`: "path=%2F*|%2Fx, tenant|a%2Fb",
		`path!~".*path=/.*",domain="shop"`:     "tenant|a%2Fb",
		`value="a/b"`:                          "tenant|a%2Fb",
		`value="/x"`:                           "path=%2F*|%2Fx",
		`domain="mail"`:                        "from/to|to=bob, from|__other__, from|from=a,to=b",
		`path="/pay"`:                          "",
	} {
		v, err := instant(t, e, "weir_hits_total{"+matchers+"}", p.clock.Load()).Vector()
		var got []string
		for _, s := range v {
			got = append(got, s.Metric.Get("path")+"|"+s.Metric.Get("value"))
		}
		slices.Sort(got)
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("{%s} finds %s (%v), want %s", matchers, strings.Join(got, ", "), err, want)
		}
	}
	v, err := instant(t, e, `label_replace(weir_limit_requests{path="user/path=/pay"}, "route", "$1", "path", ".*=(.*)")`, p.clock.Load()).Vector()
	if err != nil || len(v) != 1 || v[0].Metric.Get("route") != "%2Fpay" {
		t.Errorf("the limit of a path as people read it, with a label made of it, is %v (%v), want a route of %%2Fpay", v, err)
	}
}

func TestSelectorsFindTheNamedSeries(t *testing.T) {
	p, e := few(t)
	for text, want := range map[string][]string{
		"weir_hits_total": {`{__name__="weir_hits_total", domain="mail", outcome="within", path="path=%2F", value="{x=\"y\"}\n"} 7`,
			`{__name__="weir_hits_total", domain="shop", outcome="degraded", path="user", value="ann"} 6`,
			`{__name__="weir_hits_total", domain="shop", outcome="over", path="user"} 3`,
			`{__name__="weir_hits_total", domain="shop", outcome="shadow", path="user"} 5`,
			`{__name__="weir_hits_total", domain="shop", outcome="within", path="user"} 2`,
			`{__name__="weir_hits_total", outcome="within"} 8`},
		`weir_near_hits_total`:                      {`{__name__="weir_near_hits_total", domain="shop", path="user"} 4`},
		`{domain="shop",__name__=~".*near.*"}`:      {`{__name__="weir_near_hits_total", domain="shop", path="user"} 4`},
		`weir_hits_total{value="ann"}`:              {`{__name__="weir_hits_total", domain="shop", outcome="degraded", path="user", value="ann"} 6`},
		`weir_hits_total{value!="",domain!="mail"}`: {`{__name__="weir_hits_total", domain="shop", outcome="degraded", path="user", value="ann"} 6`},
		`weir_hits_total{value="",outcome!="within"}`: {`{__name__="weir_hits_total", domain="shop", outcome="over", path="user"} 3`,
			`{__name__="weir_hits_total", domain="shop", outcome="shadow", path="user"} 5`},
		`weir_hits_total{domain=""}`:                   {`{__name__="weir_hits_total", outcome="within"} 8`},
		`weir_hits_total{domain="shop",domain="mail"}`: nil,
		`weir_hits_total{domain="shop",domain=~"m.*"}`: nil,
		`weir_hits_total{pod="x"}`:                     nil,
		`weir_hits_total{pod="",outcome="over"}`:       {`{__name__="weir_hits_total", domain="shop", outcome="over", path="user"} 3`},
		`weir_hits_total{outcome="denied"}`:            {`{__name__="weir_hits_total", domain="shop", outcome="over", path="user"} 3`},
		`weir_hits_total{outcome="refused"}`:           {`{__name__="weir_hits_total", domain="shop", outcome="over", path="user"} 3`},
		`weir_hits_total{outcome=~"denied|shadow"}`: {`{__name__="weir_hits_total", domain="shop", outcome="over", path="user"} 3`,
			`{__name__="weir_hits_total", domain="shop", outcome="shadow", path="user"} 5`},
		`weir_hits_total{outcome!="denied",value="",domain="shop"}`: {`{__name__="weir_hits_total", domain="shop", outcome="shadow", path="user"} 5`,
			`{__name__="weir_hits_total", domain="shop", outcome="within", path="user"} 2`},
		`weir_hits_total{outcome!~"refused|within",value=""}`: {`{__name__="weir_hits_total", domain="shop", outcome="shadow", path="user"} 5`},
		`weir_hits_total{outcome=~"d.*"}`:                     {`{__name__="weir_hits_total", domain="shop", outcome="degraded", path="user", value="ann"} 6`},
		`weir_hits_peak{outcome="denied"} offset 8m`:          {`{__name__="weir_hits_peak", domain="shop", outcome="over", path="user"} 1`},
		`weir_hits_total{outcome="near"}`:                     nil,
		`weir_near_hits_total{outcome="near"}`:                nil,
		`weir_hits_peak{outcome="near"} offset 8m`:            {`{__name__="weir_hits_peak", domain="shop", outcome="near", path="user"} 1`},
		`max_over_time(weir_hits_peak{outcome=~"near|shadow"}[1h])`: {`{domain="shop", outcome="near", path="user"} 3`,
			`{domain="shop", outcome="shadow", path="user"} 4`},
		`weir_limit_requests`: {`{__name__="weir_limit_requests", domain="shop", limit="10/minute", path="user"} 10`,
			`{__name__="weir_limit_requests", domain="shop", limit="500/hour", path="user"} 500`},
		`weir_limit_requests{limit=~".*hour"} offset 5y`: {`{__name__="weir_limit_requests", domain="shop", limit="500/hour", path="user"} 500`},
		`weir_limit_requests offset -6m`:                 nil,
		`up`:                                             nil,
		`sum by (domain, path) (weir_hits_total{outcome="over"}) / on(domain, path) group_right weir_limit_requests{limit="10/minute"}`: {
			`{domain="shop", limit="10/minute", path="user"} 0.3`},
	} {
		v, err := instant(t, e, text, p.clock.Load()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var got []string
		for _, s := range v {
			got = append(got, fmt.Sprint(s.Metric, " ", s.F))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s is\n%s, want\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A peak holds for all of its bucket, and is 0 where there is no bucket, so that no window over it is empty.
func TestPeaksAreStepsWithoutGaps(t *testing.T) {
	p := newPast(t, history.DefaultRetention())
	now := p.clock.Load()
	old := now/day*day - 40*day
	p.count(history.Increment{ID: busy, Minute: old/minute + 7, Hits: 20}, history.Increment{ID: busy, Minute: old/minute + 900, Hits: 30},
		history.Increment{ID: busy, Minute: old/minute + 3*1440, Hits: 5})
	historytest.Downsample(p.t, p.store, p.now())
	e := p.engine()
	for text, back := range map[string]int64{"weir_hits_peak": 0, "max_over_time(weir_hits_peak[10m])": 10 * minute,
		"max_over_time(weir_hits_peak[1h])": hour, "max_over_time(weir_hits_peak[10s])": 10} {
		inside := min(back, 1) // a window that ends where a bucket begins does not meet it
		points := curve(t, e, text, old+hour, old+5*day, 10*minute)
		for at := old + hour; at <= old+5*day; at += 10 * minute {
			want := 0.0
			switch {
			case at-back < old+day:
				want = 30
			case at >= old+3*day+inside && at-back < old+4*day:
				want = 5
			}
			if got, found := points[at]; !found || got != want {
				t.Errorf("%s, %v after the first day began, is %v (there: %v), want %v", text, time.Duration(at-old)*time.Second, got, found, want)
			}
		}
	}
}

// A bucket that is not over, a day after an early roll, has its peak until now and not a moment longer.
func TestPeaksHoldUntilNow(t *testing.T) {
	keep := history.DefaultRetention()
	keep.MaxPoints = 1
	p := newPast(t, keep)
	now := p.clock.Load()
	p.count(history.Increment{ID: busy, Minute: now/minute - 3, Hits: 7}, history.Increment{ID: busy, Minute: now / minute, Hits: 9})
	e := p.engine()
	for text, want := range map[string]int{"weir_hits_peak": 1, "max_over_time(weir_hits_peak[5m])": 1, "weir_hits_peak offset -5m": 0,
		"max_over_time(weir_hits_peak[5m] offset -10m)": 0, "max_over_time(weir_hits_peak[5m] offset -1d)": 0} {
		if v, err := instant(t, e, text, now).Vector(); err != nil || len(v) != want || want == 1 && v[0].F != 9 {
			t.Errorf("%s is %v (%v), want %d value of 9", text, v, err, want)
		}
	}
}
