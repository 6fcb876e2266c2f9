package terminal

import (
	"fmt"
	"io"
	"sync"
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
	out         io.Writer
	begin       time.Time
	printed     bool // a line, or the last one is to be
	end         chan struct{}
	ticking     sync.WaitGroup
}

// Start begins to print a line a second, if that is asked for. Unit is what is counted, "" if nothing can be.
func (f *ProgressFlag) Start(out io.Writer, unit string) *Progress {
	p := &Progress{unit: unit, out: out, begin: time.Now(), printed: f.Progress, end: make(chan struct{})}
	if !f.Progress && !Is(out) {
		return p
	}
	p.ticking.Go(func() {
		seconds := time.NewTicker(time.Second)
		defer seconds.Stop()
		for {
			select {
			case <-p.end:
				return
			case <-seconds.C:
				p.printed = true
				fmt.Fprintln(out, p.line(time.Since(p.begin)))
			}
		}
	})
	return p
}

// Stop prints the last line. It must be called once.
func (p *Progress) Stop() {
	close(p.end)
	p.ticking.Wait()
	if p.printed {
		fmt.Fprintln(p.out, p.line(time.Since(p.begin)))
	}
}

// line returns how far it is after some time: 12,345 of 65,205 rows, 20,575/s, 2s left.
func (p *Progress) line(took time.Duration) string {
	if p.unit == "" {
		return "waiting for " + Span(int64(took/time.Second))
	}
	done, total := p.Done.Load(), p.Total.Load()
	text, rate := Thousands(uint64(done)), float64(done)/max(took.Seconds(), 0.001)
	if total > 0 {
		text += " of " + Thousands(uint64(total))
	}
	text += fmt.Sprintf(" %s, %s/s", p.unit, Thousands(uint64(rate)))
	if total > done && rate > 0 {
		text += ", " + Span(int64(float64(total-done)/rate)+1) + " left"
	}
	return text
}
