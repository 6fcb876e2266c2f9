package historyfire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// site is where a history is, and by which clock: a thousand times as quick as ours, so that hits grow old, and a week,
// after which a store forgets a writer, still is ten minutes.
type site struct {
	Type  topology.Type
	URL   string
	Epoch time.Time // our time when it was start by the clock
}

// start is where the clock begins: some weeks before the end of a year, so that weeks are split between two.
var start = time.Date(2026, 12, 1, 11, 59, 48, 700_000_000, time.UTC)

func (s site) now() time.Time { return start.Add(1000 * time.Since(s.Epoch)) }

// open opens the history. Hits that are some weeks late go through all tiers and out of the last.
func (s site) open(step func(string)) (*redishistory.Store, error) {
	const d = 24 * time.Hour
	return redishistory.Open(redishistory.Config{
		Redis:     topology.Config{Type: s.Type, URL: s.URL, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)},
		Now:       func() string { return strconv.FormatInt(s.now().UnixMicro(), 10) },
		Retention: history.Retention{Ages: [history.Tiers]time.Duration{d, 3 * d, 10 * d, 40 * d}, MaxPoints: 120},
		Pace:      1, Step: step,
	})
}

// orders are what a child is to do, in its environment.
type orders struct {
	Site   site
	Role   string // writer or job
	Ledger string
	Seed   uint64
	Die    string // the step at which it kills itself, or anyStep
	Nth    int64  // when it comes there for the nth time
}

const (
	ordersVariable = "HISTORYFIRE"
	anyStep        = "*"
)

// child is a process that may be killed at any instant.
type child struct {
	orders
	*redishistory.Store
	ledger *os.File

	mu       sync.Mutex
	random   *rand.Rand
	recorded uint64
	sent     map[[2]uint64]history.Batch // by partition and number: what was sent stays as it is
	acked    map[history.Partition]uint64
}

// runChild is the child's main.
func runChild(text string) error {
	c := &child{sent: make(map[[2]uint64]history.Batch), acked: make(map[history.Partition]uint64)}
	if err := json.Unmarshal([]byte(text), &c.orders); err != nil {
		return err
	}
	c.random = rand.New(rand.NewPCG(c.Seed, 1))
	stop, told := context.WithCancel(context.Background())
	go func() {
		if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); line == "" {
			os.Exit(3) // the tests are gone
		}
		told()
	}()
	var err error
	if c.ledger, err = os.OpenFile(c.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return err
	}
	var seen atomic.Int64
	c.Store, err = c.Site.open(func(name string) {
		if (name == c.Die || c.Die == anyStep) && seen.Add(1) == c.Nth {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it comes within a moment
		}
	})
	if err != nil {
		return err
	}
	if c.Role == "writer" {
		c.write(stop)
		return c.Close()
	}
	for stop.Err() == nil {
		if _, err := c.Downsample(stop, c.Site.now()); err != nil {
			time.Sleep(20 * time.Millisecond) // a server is away, or a slot moves
		}
	}
	return c.Close()
}

// write records hits and exports them until it is told to stop, and drains.
func (c *child) write(stop context.Context) {
	e := export.New(export.Config{Drain: c.drain, Store: c, Log: slog.New(slog.DiscardHandler),
		Interval: 40 * time.Millisecond, Timeout: 10 * time.Second, KeepAcked: 10 * time.Minute})
	e.Run(stop)
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang/2)
	defer cancel()
	e.Close(ctx)
	s := e.Stats()
	dropped := uint64(0)
	for _, n := range s.Dropped {
		dropped += n
	}
	c.note("X %d %d %d\n", c.recorded, s.Recorded, dropped+s.Lost+s.Refused+uint64(s.Waiting)+s.Unreplicated)
}

// note writes a line. The kernel keeps what a killed process has written, and a writer that cannot keep its ledger must
// not go on.
func (c *child) note(format string, args ...any) {
	if _, err := fmt.Fprintf(c.ledger, format, args...); err != nil {
		panic(err)
	}
}

// drain records hits of some series.
func (c *child) drain(_ time.Time, yield func(history.ID, uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range seriesCount {
		if c.random.IntN(4) > 0 {
			hits := 1 + c.random.Uint64N(1000)
			c.recorded += hits
			yield(seriesOf(n), hits)
		}
	}
}

// Apply is the store's. What is sent and what is acknowledged is noted before anything else happens.
func (c *child) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if b.Seq > 0 {
		b = c.made(p, b)
	}
	r, err := c.Store.Apply(ctx, p, b)
	if err != nil {
		return r, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Last < c.acked[p] {
		c.note("G\n") // it has forgotten some
	}
	if b.Seq > 0 && r.Last >= b.Seq {
		c.note("A %s %d %d\n", b.Writer, p, b.Seq)
		c.acked[p] = b.Seq
	}
	return r, nil
}

// made is a batch with minutes by the site's clock, as the exporter knows only ours: the same whenever it is sent.
func (c *child) made(p history.Partition, b history.Batch) history.Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]uint64{uint64(p), b.Seq}
	made, known := c.sent[key]
	if !known {
		made = history.Batch{Writer: b.Writer, Seq: b.Seq}
		now, text := c.Site.now().Unix()/60, ""
		used := make(map[history.Increment]bool) // no series and minute may come twice
		for _, i := range b.Increments {
			for i.Minute = now - c.late(); used[history.Increment{ID: i.ID, Minute: i.Minute}]; i.Minute-- {
			}
			used[history.Increment{ID: i.ID, Minute: i.Minute}] = true
			made.Increments = append(made.Increments, i)
			text += fmt.Sprintf(" %d %d", numbers[i.ID], i.Hits)
		}
		c.note("S %s %d %d%s\n", b.Writer, p, b.Seq, text)
		c.sent[key] = made
	}
	made.After = b.After
	return made
}

// late is how many minutes hits are late: most are not, some by weeks. A few are early, as if a clock were wrong.
func (c *child) late() int64 {
	const day = 24 * 60
	switch n := c.random.IntN(100); {
	case n < 2:
		return -c.random.Int64N(3 * 60)
	case n < 60:
		return 0
	case n < 85:
		return c.random.Int64N(day)
	case n < 95:
		return c.random.Int64N(12 * day)
	}
	return c.random.Int64N(45 * day)
}
