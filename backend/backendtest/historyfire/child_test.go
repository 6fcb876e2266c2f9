package historyfire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

// orders are what a child is to do, in its environment.
type orders struct {
	Role          string // writer, job, or owner: a file's writer and two jobs in one process
	Board, Ledger string
	Slot          int
	Seed          uint64
	Die           string // the step at which it kills itself, or anyStep
	Nth           int64  // when it comes there for the nth time
	Site          site
	Kept          time.Duration // that a writer keeps what was acknowledged; 0 for as long as it does by itself
}

// anyStep stands for each step.
const anyStep = "*"

const ordersVariable = "HISTORYFIRE"

// site is where a history is: in a folder, or in Redis.
type site struct {
	Dir  string
	Type redis.Type
	URL  string
}

// closing is a store that is closed in the end.
type closing interface {
	history.Store
	Close() error
}

// keep lets hits that are some weeks late go through all tiers and out of the last.
func keep() history.Keep {
	const d = 24 * time.Hour
	return history.Keep{Ages: [history.Tiers]time.Duration{d, 3 * d, 10 * d, 40 * d}, MaxPoints: 120}
}

// open opens the history with the board's clock.
func (p site) open(b *board, step func(string)) (closing, error) {
	if p.Dir != "" {
		return filehistory.Open(filehistory.Config{Dir: p.Dir, Keep: keep(), Now: b.now, Step: step})
	}
	return redishistory.Open(redishistory.Config{
		Redis: redis.Config{Type: p.Type, URL: p.URL, Timeout: 2 * time.Second, Log: slog.New(slog.DiscardHandler)},
		Now:   func() string { return strconv.FormatInt(b.now().UnixMicro(), 10) },
		Keep:  keep(), Pace: 1, Step: step,
	})
}

// child is a process that may be killed at any instant.
type child struct {
	orders
	board  *board
	seen   atomic.Int64
	stop   context.Context // ends when the child is told to
	random *rand.Rand
}

// runChild is the child's main.
func runChild(text string) error {
	c := &child{}
	if err := json.Unmarshal([]byte(text), &c.orders); err != nil {
		return err
	}
	var err error
	if c.board, err = openBoard(c.Board); err != nil {
		return err
	}
	c.random = rand.New(rand.NewPCG(c.Seed, 1))
	stop, told := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); line == "" {
			os.Exit(3) // the tests are gone
		}
		told()
	}()
	store, err := c.Site.open(c.board, c.step)
	if err != nil {
		return err
	}
	switch c.Role {
	case "writer":
		err = c.write(store)
	case "job":
		c.roll(store)
	case "owner":
		var jobs sync.WaitGroup
		jobs.Go(func() { c.roll(store) })
		jobs.Go(func() { c.roll(store) })
		err = c.write(store)
		jobs.Wait()
	default:
		err = fmt.Errorf("no such role: %q", c.Role)
	}
	if err != nil {
		return err
	}
	return store.Close()
}

// step notes where the child is, and kills it where it is to die.
func (c *child) step(name string) {
	c.board.at(c.Slot, slotStep).Store(numberOf(name))
	c.board.at(c.Slot, slotSteps).Add(1)
	if (name == c.Die || c.Die == anyStep) && c.seen.Add(1) == c.Nth {
		c.board.at(c.Slot, slotDied).Store(numberOf(name))
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it comes within a moment
	}
}

// roll runs the job until the child is told to stop. Where a server is away or a slot moves it fails, and begins again.
func (c *child) roll(store history.Store) {
	for c.stop.Err() == nil {
		if _, err := store.Roll(c.stop, history.Job{Now: c.board.now()}); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// write records hits and exports them until the child is told to stop, and drains.
func (c *child) write(store history.Store) error {
	ledger, err := os.OpenFile(c.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w := &witness{Store: store, child: c, ledger: ledger, sent: make(map[[2]uint64]history.Batch),
		heard: make(map[history.Partition]int64), acked: make(map[history.Partition]uint64)}
	interval := 40 * time.Millisecond
	if c.Role == "owner" { // it does not live long
		interval = 5 * time.Millisecond
	}
	config := export.Config{
		Drain: w.drain, Store: w, Log: slog.New(slog.DiscardHandler), Interval: interval, Timeout: 2 * time.Second, Kept: c.Kept,
	}
	if servers, are := store.(*redishistory.Store); are {
		config.Settle = servers.Settle
	}
	e := export.New(config)
	e.Run(c.stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e.Close(ctx)
	_, err = io.WriteString(ledger, finalLine(e.Stats()))
	return err
}
