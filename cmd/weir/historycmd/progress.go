package historycmd

import (
	"io"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// progress shows how far a command is: on a terminal in a line that is rewritten, else in the log each minute.
type progress struct {
	out      io.Writer
	terminal bool
	log      *slog.Logger // nil for none
	shown    time.Time
}

func newProgress(out io.Writer, log *slog.Logger) *progress {
	return &progress{out: out, terminal: out != nil && terminal.Is(out), log: log, shown: time.Now()}
}

// show shows a text, if it is time for one.
func (p *progress) show(text func() string) {
	passed := time.Since(p.shown)
	switch {
	case p.terminal && passed >= 100*time.Millisecond:
		terminal.Rewrite(p.out, text())
	case !p.terminal && p.log != nil && passed >= time.Minute:
		p.log.Info("at work", "done", text())
	default:
		return
	}
	p.shown = time.Now()
}

// end makes room for what comes after the line.
func (p *progress) end() {
	if p.terminal {
		terminal.Clear(p.out)
	}
}
