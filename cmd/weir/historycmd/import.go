package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

type importCommand struct {
	File string `arg:"" placeholder:"FILE" help:"What to read: CSV."`
}

func (*importCommand) Help() string {
	return `Counts the rows of a file as late hits, in the history that the environment names: Redis, beside any weir serve, or the
file in DATA_DIR, while no weir serve has it.

    weir history import history.csv
    weir history export --admin 127.0.0.1:6070 > history.csv && REDIS_HISTORY_URL=redis:6379 weir history import history.csv

The first line names the columns, as an export has them: domain,path,outcome,value,start,width,sum,peak. Paths have / = %
of keys and values escaped (user/path=%2Fpay). A row is the hits of one bucket: it begins at start (Unix seconds, on a
whole minute), is width seconds wide (whole minutes, at most a day), has sum hits, and peak of them in its largest
minute. value and peak may be empty; without a peak, hits are spread over all minutes. Near hits are a part of within,
and shadow hits of over. Rows older than HISTORY_RETENTION are refused: they would be lost at once.

All rows are checked before the first is counted; the first that is wrong is told with its line. A file counts once:
after an interruption, run the same command again, and what is missing is added. This is known of a file for 7 days, by
what is in it, so another export of the same history is another file, and counts again. Exit code: 0, 1 if hits were
refused as their series is full, 2 for an error.`
}

func (c *importCommand) Run(ctx context.Context, out terminal.Output) error {
	begin := time.Now()
	set, err := config.Read(config.Process())
	if err != nil {
		return err
	}
	file, err := openInput(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	loaded, err := load(&set, func(to transfer.Target) (transfer.Loaded, error) {
		return transfer.Import(ctx, file, to)
	})
	if err != nil {
		if loaded.Rows > 0 {
			err = fmt.Errorf("%w (of the file, %s rows were on their way; run the same command again within 7 days, and "+
				"each counts once)", err, terminal.Thousands(loaded.Rows))
		}
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if _, err = io.WriteString(out.Out, describeLoaded(loaded, time.Since(begin), storeName(&set))); err != nil {
		return err
	}
	if loaded.Refused > 0 {
		return terminal.No
	}
	return nil
}

// describeLoaded returns what an import loaded, over several lines.
func describeLoaded(loaded transfer.Loaded, took time.Duration, where string) string {
	text := fmt.Sprintf("Read %s rows with %s hits into %s, in %s.\n", terminal.Thousands(loaded.Rows), terminal.Thousands(loaded.Hits),
		terminal.Printable(where), took.Round(100*time.Millisecond))
	if loaded.Known > 0 {
		text += fmt.Sprintf("%s hits had been counted by an earlier run, and were not counted again.\n", terminal.Thousands(loaded.Known))
	}
	if loaded.Refused > 0 {
		text += fmt.Sprintf("%s hits were REFUSED: their series would have more than any can hold.\n", terminal.Thousands(loaded.Refused))
	}
	return text
}

// openInput opens a file to be read twice, as a pipe cannot be.
func openInput(name string) (*os.File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	about, err := file.Stat()
	if err == nil && !about.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file: it is read twice, so write what a pipe has to one first", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
