package terminal

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// ProgressFlag is the flag --progress, for commands that may take long to embed.
type ProgressFlag struct {
	Progress bool `help:"Print a line a second on stderr: how much is done, how fast, and the time left. On a terminal without it, too."`
}

// Progress counts the work of a command. Any goroutine may set Done and Total; a Total of 0 means that it is unknown.
type Progress struct {
	Done, Total atomic.Int64
	unit        string
}

// Write counts lines as done.
func (p *Progress) Write(lines []byte) (int, error) {
	p.Done.Add(int64(bytes.Count(lines, []byte{'\n'})))
	return len(lines), nil
}

// Start starts to print a line a second, if --progress is set or out is a terminal. stop ends that, and prints the last
// line. unit is the plural noun of the counted things, "" if the command cannot count.
func (f *ProgressFlag) Start(out io.Writer, unit string) (p *Progress, stop func()) {
	p = &Progress{unit: unit}
	if !f.Progress && !IsTerminal(out) {
		return p, func() {}
	}
	begin, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		seconds := time.NewTicker(time.Second)
		defer seconds.Stop()
		for printed := f.Progress; ; printed = true {
			select {
			case <-seconds.C:
			case <-end:
				if printed {
					fmt.Fprintln(out, p.line(time.Since(begin)))
				}
				return
			}
			fmt.Fprintln(out, p.line(time.Since(begin)))
		}
	}()
	return p, func() { close(end); <-ended }
}

// line returns a line of progress: 12,345 of 65,205 rows, 20,575/s, 2s left.
func (p *Progress) line(took time.Duration) string {
	done, total := p.Done.Load(), p.Total.Load()
	rate := float64(done) / max(took.Seconds(), 0.001)
	switch {
	case p.unit == "":
		return "waiting for " + FormatSeconds(int64(took.Seconds()))
	case total == 0:
		return fmt.Sprintf("%s %s, %s/s", Thousands(uint64(done)), p.unit, Thousands(uint64(rate)))
	}
	text := fmt.Sprintf("%s of %s %s, %s/s", Thousands(uint64(done)), Thousands(uint64(total)), p.unit, Thousands(uint64(rate)))
	if total > done && rate > 0 {
		text += ", " + FormatSeconds(int64(float64(total-done)/rate)+1) + " left"
	}
	return text
}
