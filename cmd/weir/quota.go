package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rlqs"
	"github.com/weirproxy/weir/server/stats"
)

// openQuotas makes the service for Envoys that use RLQS, and registers its metrics.
func openQuotas(settings *config.Settings, l *limit.Limiter, store *counterStore, metrics *stats.Metrics, log *slog.Logger) *rlqs.Service {
	o := rlqs.Options{TTL: settings.Quotas.TTL, MaxStreams: settings.Quotas.MaxStreams, MaxBuckets: settings.Quotas.MaxBuckets,
		MaxStreamBuckets: settings.Quotas.MaxStreamBuckets, Replicas: store.replicas, Log: log}
	o.Exchange, _ = store.shared.(rlqs.Exchange)
	quotas := rlqs.New(l, o)
	metrics.RegisterGauge("weir_quota_streams", "Streams of Envoys that limit by themselves (RLQS).", nil, func() float64 { return float64(quotas.Totals().Streams) })
	metrics.RegisterGauge("weir_quota_buckets", "Buckets of Envoys that limit by themselves (RLQS).", nil, func() float64 { return float64(quotas.Totals().Buckets) })
	metrics.RegisterGauge("weir_quota_assigned_hits_per_second", "Hits a second that Envoys may let through by their shares.", nil, quotas.Assigned)
	registerTotals(metrics, nil, quotas.Totals, quotaTotals)
	for bound := range quotas.Totals().Refused {
		metrics.RegisterCounter("weir_quota_refused_total", "Quota streams, buckets, ids of buckets and messages that weir refused, by bound.",
			map[string]string{"bound": bound}, func() float64 { return float64(quotas.Totals().Refused[bound]) })
	}
	return quotas
}

var quotaTotals = []total[rlqs.Totals]{
	{"weir_quota_reports_total", "Reports of Envoys, each of one bucket.", func(t rlqs.Totals) uint64 { return t.Reports }},
	{"weir_quota_reported_allowed_hits_total", "Hits that Envoys have let through.", func(t rlqs.Totals) uint64 { return t.Allowed }},
	{"weir_quota_reported_denied_hits_total", "Hits that Envoys have denied.", func(t rlqs.Totals) uint64 { return t.Denied }},
	{"weir_quota_over_assigned_hits_total", "Hits that Envoys have let through beyond their shares.", func(t rlqs.Totals) uint64 { return t.Over }},
	{"weir_quota_abandoned_total", "Buckets that weir told Envoys to drop, because they had no requests.", func(t rlqs.Totals) uint64 { return t.Abandoned }},
}

// quotaCommand shows the demands and shares of Envoys that use RLQS.
type quotaCommand struct {
	Domain string   `placeholder:"NAME" help:"Only buckets of this domain."`
	Values bool     `help:"Show the descriptor of each bucket. Its values may be personal."`
	N      rowCount `default:"20" short:"n" help:"How many to list, at most 1000."`
	portFlags
}

func (*quotaCommand) Help() string {
	return `Lists the buckets of Envoy's rate_limit_quota filter, from the admin port of a running weir, highest demand first: the
Envoy's demand (with a fifth to grow) and its share, in hits a second, and the hits that it has allowed and denied since its
stream began. An Envoy has its stream at one replica: --admin may be a list, or a name that resolves to all replicas.

    weir quota
    weir quota --domain shop --values --admin weir-admin-pods:6070

--json prints the port's answer (server/admin/API.md).`
}

// Run lists the buckets.
func (c *quotaCommand) Run(ctx context.Context, out terminal.Output) error {
	query := url.Values{"n": {strconv.Itoa(int(c.N))}, "domain": {c.Domain}, "values": {strconv.FormatBool(c.Values)}}
	merge := func(all []*admin.QuotaAnswer) (*admin.QuotaAnswer, error) { return mergeQuota(all, int(c.N)) }
	return askEach(ctx, out, &c.portFlags, "/api/v1/quota", query, merge, func(a *admin.QuotaAnswer, _ fleet) string { return c.describe(a) })
}

// describe returns the answer as a table.
func (c *quotaCommand) describe(a *admin.QuotaAnswer) string {
	var b, rows strings.Builder
	table := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "domain\trule\tenvoy\tdemand/s\tshare/s\tends\tallowed\tdenied")
	for _, row := range a.Buckets {
		share := strconv.FormatFloat(row.Share, 'f', 1, 64)
		if row.Assignment != "share" {
			share = row.Assignment
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f\t%s\t%s\t%s\t%s\n", descriptors.Printable(row.Domain), readablePath(row.Path), row.Envoy, row.Demand,
			share, span(row.Ends), terminal.Thousands(row.Allowed), terminal.Thousands(row.Denied))
	}
	if len(a.Buckets) > 0 {
		_ = table.Flush() // a strings.Builder takes everything
		writeRows(&b, rows.String(), c.Values, func(row int) string { return a.Buckets[row].Descriptor })
	}
	if a.More > 0 {
		fmt.Fprintf(&b, "… and %s more (-n lists them)\n", terminal.Count(a.More, "bucket"))
	}
	return b.String() + "Streams of Envoys: " + strconv.Itoa(a.Streams) + "\n"
}
