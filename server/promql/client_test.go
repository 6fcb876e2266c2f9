package promql_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// client returns Prometheus's own client of a world.
func (w *world) client() v1.API {
	w.t.Helper()
	c, err := api.NewClient(api.Config{Address: w.address})
	if err != nil {
		w.t.Fatal(err)
	}
	return v1.NewAPI(c)
}

func TestPrometheusClientIsAnsweredOnEachEndpoint(t *testing.T) {
	all := someHours(3)
	c, ctx := serve(t, keeping(t, all)).client(), t.Context()
	border := someday.Truncate(time.Minute)
	from := border.Add(-time.Hour)
	hits := model.LabelSet{"__name__": "weir_hits_total", "domain": "shop", "outcome": "over", "path": "user"}
	const query = `increase(weir_hits_total{outcome="within"}[30m])`
	grown := fmt.Sprintf(`{domain="shop", outcome="within", path="user/path=%%2Fpay"} => %d @[%d]`,
		sum(all, busy, border.Unix()-30*minute, border.Unix()), border.Unix())

	for name, ask := range map[string]func() (got, want any, err error){
		"query": func() (got, want any, err error) {
			v, warnings, _, err := c.Query(ctx, query, border, v1.WithTimeout(time.Minute), v1.WithLimit(5))
			return fmt.Sprint(v, warnings), grown + " []", err
		},
		"query_range": func() (got, want any, err error) {
			v, _, _, err := c.QueryRange(ctx, query, v1.Range{Start: from, End: border, Step: time.Minute})
			m, _ := v.(model.Matrix)
			return fmt.Sprintf("%d series of %d", len(m), len(m[0].Values)), "1 series of 61", err
		},
		"series": func() (got, want any, err error) {
			found, _, _, err := c.Series(ctx, []string{`weir_hits_total{outcome="over"}`}, from, border)
			return fmt.Sprint(found), fmt.Sprint([]model.LabelSet{hits}), err
		},
		"labels": func() (got, want any, err error) {
			names, _, _, err := c.LabelNames(ctx, nil, from, border)
			return fmt.Sprint(names), "__name__, domain, outcome, path, value", err
		},
		"label values": func() (got, want any, err error) {
			found, _, _, err := c.LabelValues(ctx, "outcome", []string{"weir_hits_peak"}, from, border)
			return fmt.Sprint(found), "[over shadow within]", err
		},
		"metadata": func() (got, want any, err error) {
			m, err := c.Metadata(ctx, "weir_hits_peak", "1")
			return m["weir_hits_peak"][0].Type, v1.MetricTypeGauge, err
		},
		"buildinfo": func() (got, want any, err error) {
			info, err := c.Buildinfo(ctx)
			return info.Revision, "test", err
		},
		"query_exemplars": func() (got, want any, err error) {
			found, err := c.QueryExemplars(ctx, query, from, border)
			return len(found), 0, err
		},
		"rules": func() (got, want any, err error) {
			rules, err := c.Rules(ctx, nil)
			return len(rules.Groups), 0, err
		},
		"alerts": func() (got, want any, err error) {
			alerts, err := c.Alerts(ctx)
			return len(alerts.Alerts), 0, err
		},
		"targets": func() (got, want any, err error) {
			targets, err := c.Targets(ctx)
			return len(targets.Active) + len(targets.Dropped), 0, err
		},
		"alertmanagers": func() (got, want any, err error) {
			managers, err := c.AlertManagers(ctx)
			return len(managers.Active) + len(managers.Dropped), 0, err
		},
	} {
		if got, want, err := ask(); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, error %v, want %v", name, got, err, want)
		}
	}
}

func TestPrometheusClientIsToldWhatIsWrong(t *testing.T) {
	c := serve(t, keeping(t, someHours(1))).client()
	for query, want := range map[string]v1.ErrorType{
		"weir_hits_total{":                       v1.ErrBadData,
		"label_replace(weir_hits_total,1)":       v1.ErrBadData,
		"weir_hits_total + on() weir_hits_total": v1.ErrExec,
	} {
		_, _, _, err := c.Query(t.Context(), query, someday)
		var is *v1.Error
		if !errors.As(err, &is) || is.Type != want {
			t.Errorf("%s: %v, want an error of type %s", query, err, want)
		}
	}
}
