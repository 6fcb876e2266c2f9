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

	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
	historyapi "github.com/weirproxy/weir/server/history"
)

type exportCommand struct {
	readFlags
	rangeFlags
	seriesFlags
	terminal.ProgressFlag
	Format transfer.Format `default:"csv" enum:"csv,openmetrics" help:"csv or openmetrics."`
}

func (*exportCommand) Help() string {
	return `weir history import reads back the CSV, promtool the OpenMetrics:

    weir history export > history.csv
    weir history export --format openmetrics > history.om
    promtool tsdb create-blocks-from openmetrics history.om prometheus-data

server/admin/API.md has the columns, cmd/weir/OPERATION.md what a spreadsheet and Prometheus need to know.
After exit code 1 or 2 what was written is not whole. ` + exitCodes
}

func (c *exportCommand) Run(ctx context.Context, out terminal.Output) error {
	q := url.Values{"domain": {c.Domain}, "path": {c.Path}, "outcome": {c.Outcome}, "value": {c.Value},
		"format": {string(c.Format)}}
	if err := c.addTo(q, &out); err != nil {
		return err
	}
	progress, stop := c.Start(out.Err, "lines")
	defer stop()
	buffer := bufio.NewWriterSize(io.MultiWriter(out.Out, progress), 64<<10)
	written, err := c.export(ctx, q, buffer)
	if err = errors.Join(err, buffer.Flush()); err != nil {
		return fmt.Errorf("the export is not whole: %w", err)
	}
	c.printSource(out)
	if !written.Found && written.LeftOut == 0 {
		return c.errNoSeries(q, 0, written.Warnings)
	}
	for _, warning := range written.Warnings {
		fmt.Fprintln(out.Err, descriptors.Printable(warning))
	}
	if written.Rows == 0 {
		fmt.Fprintf(out.Err, "No hits between --from and --to, which is %s.\n",
			time.Unix(written.To, 0).In(out.Zone).Format("2006-01-02 15:04 MST"))
	}
	return exitFor(written.LeftOut, written.Rows == 0)
}

// export writes the history in the Redis of the environment or, without one, that of an admin port.
func (c *exportCommand) export(ctx context.Context, q url.Values, out io.Writer) (written historyapi.Exported, err error) {
	asked, err := c.askRedis(func(h *historyapi.History) (err error) {
		written, err = h.Export(ctx, historyapi.Parameters(q), c.Format, out)
		return err
	})
	if asked || err != nil {
		return written, err
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
