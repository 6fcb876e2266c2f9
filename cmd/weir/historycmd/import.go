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
	"github.com/weirproxy/weir/descriptors"
)

type importCommand struct {
	File   string `arg:"" placeholder:"FILE" help:"What to read: CSV."`
	DryRun bool   `help:"Only check the rows, and say what would be counted."`
	Add    bool   `help:"Count rows where the history holds as many hits already, too: those of another weir."`
	terminal.ProgressFlag
}

func (*importCommand) Help() string {
	return `Counts the rows of an export as late hits, in the history that the environment names: Redis, beside any weir serve, or the
file in DATA_DIR, while no weir serve has it. cmd/weir/OPERATION.md has the columns.

    weir history import history.csv

All rows are checked before the first is counted. A file counts once: after an interruption, run the same command again
within 7 days. A part of it, or a later export, is refused where the history holds as many hits already, unless you --add.
Exit code: 0, 1 if hits were refused as their series is full, 2 for an error; --dry-run never ends with 1.`
}

func (c *importCommand) Run(ctx context.Context, out terminal.Output) error {
	begin := time.Now()
	settings, err := config.Read(config.Process())
	if err != nil {
		return err
	}
	file, err := openInput(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	progress, stop := c.Start(out.Err, "rows")
	loaded, err := load(&settings, func(to transfer.Target) (transfer.LoadResult, error) {
		to.DryRun, to.Add = c.DryRun, c.Add
		to.Done, to.All = &progress.Done, &progress.Total
		return transfer.Import(ctx, file, to)
	})
	stop()
	if err != nil {
		if loaded.Rows > 0 {
			err = fmt.Errorf("%w (of the file, %s rows were on their way; run the same command again within 7 days, and "+
				"each counts once)", err, terminal.Thousands(loaded.Rows))
		}
		return fmt.Errorf("%s: %w", c.File, err)
	}
	text := describeLoaded(loaded, time.Since(begin), storeName(&settings))
	if c.DryRun {
		if loaded.Resumed {
			text += "Hits that an earlier run of this file counted would not be counted again.\n"
		}
		text += "That was a dry run: nothing was counted.\n"
	}
	if _, err = io.WriteString(out.Out, text); err != nil {
		return err
	}
	if loaded.Refused > 0 {
		return terminal.ExitNo
	}
	return nil
}

// describeLoaded describes the result of an import in several lines.
func describeLoaded(loaded transfer.LoadResult, took time.Duration, where string) string {
	text := fmt.Sprintf("Read %s rows with %s hits into %s, in %s.\n", terminal.Thousands(loaded.Rows), terminal.Thousands(loaded.Hits),
		descriptors.Printable(where), took.Round(100*time.Millisecond))
	if loaded.LookCounted > 0 {
		text += fmt.Sprintf("%s rows looked counted: the history held as many hits there.\n", terminal.Thousands(loaded.LookCounted))
	}
	if loaded.Duplicates > 0 {
		text += fmt.Sprintf("%s hits had been counted by an earlier run, and were not counted again.\n", terminal.Thousands(loaded.Duplicates))
	}
	if loaded.Refused > 0 {
		text += fmt.Sprintf("%s hits were REFUSED: their series would have more than any can hold.\n", terminal.Thousands(loaded.Refused))
	}
	return text
}

// openInput opens a file, which must be readable twice, unlike a pipe.
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
