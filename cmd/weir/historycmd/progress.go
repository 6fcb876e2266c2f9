package historycmd

import (
	"io"
	"time"

	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// loadProgress shows on a terminal how many rows have been laid down, in a line that is rewritten.
type loadProgress struct {
	out      io.Writer
	terminal bool
	shown    time.Time
}

func newLoadProgress(out io.Writer) *loadProgress {
	return &loadProgress{out: out, terminal: out != nil && terminal.Is(out), shown: time.Now()}
}

func (p *loadProgress) show(did transfer.Loaded) {
	if !p.terminal || did.Rows%100 > 0 || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	terminal.Rewrite(p.out, terminal.Thousands(did.Rows)+" buckets, "+terminal.Thousands(did.Hits)+" hits")
}

// end makes room for what comes after the line.
func (p *loadProgress) end() {
	if p.terminal {
		terminal.Clear(p.out)
	}
}
