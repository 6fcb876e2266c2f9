package terminal

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// ProgressFlag is embedded in the commands that may take long.
type ProgressFlag struct {
	Progress bool `help:"Print a line a second on stderr: how much is done, how fast, and the time left. On a terminal without it, too."`
}

// Progress tells people how far a command is. Done and Total may be set by any goroutine; a Total of 0 is not known.
type Progress struct {
	Done, Total atomic.Int64
	unit        string
}

// Write counts lines as done.
func (p *Progress) Write(lines []byte) (int, error) {
	p.Done.Add(int64(bytes.Count(lines, []byte{'\n'})))
	return len(lines), nil
}

// Start begins to print a line a second, if that is asked for, until stop is called, which prints the last. Unit is what
// is counted, "" if nothing can be.
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

// line returns how far it is after some time: 12,345 of 65,205 rows, 20,575/s, 2s left.
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
