package historycmd

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// quiet is how long no query runs until the processors are given back. To change their number stops the process for some
// microseconds.
const quiet = time.Minute

// processors gives the process more of what Go schedules goroutines on while queries run. Queries compute for seconds.
// Where they take all of Go's processors, a request seems to wait 10 ms for the first look at the network, and again
// for each of its steps; with processors of their own it is the kernel that shares out the time, and it prefers who has slept.
type processors struct {
	more int // for so many queries at a time

	mu      sync.Mutex // protects what follows
	usual   int        // their number before; 0 while it is what it was
	running int
	giveUp  *time.Timer
}

func newProcessors(queries int) *processors { return &processors{more: queries} }

// begin makes room for a query. What it returns is called at the query's end.
func (p *processors) begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
	if p.usual == 0 {
		p.usual = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(p.usual + p.more)
	}
	if p.giveUp != nil {
		p.giveUp.Stop()
	}
	return p.end
}

func (p *processors) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running--; p.running == 0 {
		p.giveUp = time.AfterFunc(quiet, p.restore)
	}
}

// restore gives the processors back, unless another query has begun.
func (p *processors) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running > 0 || p.usual == 0 {
		return
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // which follows the limits of the container again
	} else {
		runtime.GOMAXPROCS(p.usual)
	}
	p.usual = 0
}
