package historycmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/admin"
)

type exportCommand struct {
	source
	timeRange
	seriesFilter
	Format transfer.Format `default:"csv" enum:"csv,openmetrics" help:"csv or openmetrics."`
}

func (*exportCommand) Help() string {
	return `Writes all that is stored, as it is stored, to the standard output:

    weir history export > history.csv
    weir history export --format openmetrics > history.om
    promtool tsdb create-blocks-from openmetrics history.om prometheus-data

CSV has a row for each stored bucket: domain, path, outcome, value, start (Unix seconds), width (seconds), sum, and
peak, its largest minute. Of the outcomes, within, over and degraded add up to all hits: near hits are a part of within,
and shadow hits of over, so to add them too would count them twice. A range has the buckets that begin in it, so ranges
that touch share none. weir history import reads it back. A name that begins with = + - or @ is a formula to a spreadsheet: open the file there
with its first four columns as text. OpenMetrics has the counters weir_hits_total,
weir_near_hits_total and weir_shadow_hits_total: what each series had ever counted, where each of its buckets begins and
ends. It ends 3 hours ago, as Prometheus still writes what is younger: blocks must not reach into that. Between two hits
a series has no samples, so let Prometheus look back over the longest pause: prometheus --query.lookback-delta=400d. Its
increase() is an estimate there; weir's own is not.

An export that fails ends with an exit code of 2, and OpenMetrics then has no # EOF. A series that cannot be read is left
out and named in a warning. Exit code: 0, 1 if a series was left out, 2 for an error.`
}

func (c *exportCommand) Run(ctx context.Context, out terminal.Output) error {
	q := url.Values{"domain": {c.Domain}, "path": {c.Path}, "outcome": {c.Outcome}, "value": {c.Value},
		"format": {string(c.Format)}}
	if err := c.addTo(q, &out); err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(out.Out, 64<<10)
	written, err := c.export(ctx, q, buffer)
	if err = errors.Join(err, buffer.Flush()); err != nil {
		return fmt.Errorf("the export is not whole: %w", err)
	}
	if !written.Found && len(written.Warnings) == 0 {
		return noSeries(q)
	}
	for _, warning := range written.Warnings {
		fmt.Fprintln(out.Err, terminal.Printable(warning))
	}
	if written.Rows == 0 {
		fmt.Fprintf(out.Err, "No hits between --from and --to, which is %s.\n",
			time.Unix(written.To, 0).In(out.Zone).Format("2006-01-02 15:04 MST"))
	}
	return noIfBroken(written.LeftOut)
}

// export writes what the Redis of the environment holds, or else what an admin port answers.
func (c *exportCommand) export(ctx context.Context, q url.Values, out io.Writer) (written transfer.Exported, err error) {
	store, err := c.open()
	if err != nil {
		return written, err
	}
	if store != nil {
		written, err = transfer.Export(ctx, query.New(store, time.Now), query.Parameters(q), c.Format, out)
		return written, errors.Join(err, store.Close())
	}
	trailer, err := c.Stream(ctx, "/api/v1/history/export", q, out)
	if err != nil {
		return written, err
	}
	text, err := url.QueryUnescape(trailer.Get(admin.ExportTrailer))
	if err == nil {
		err = json.Unmarshal([]byte(text), &written)
	}
	if err != nil {
		return written, fmt.Errorf("%s did not say that this is all: %w", c.Address, err)
	}
	return written, nil
}
