package historyfire

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
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
		Redis: topology.Config{Type: s.Type, URL: s.URL, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)},
		Now:   func() string { return strconv.FormatInt(s.now().UnixMicro(), 10) },
		Keep:  history.Keep{Ages: [history.Tiers]time.Duration{d, 3 * d, 10 * d, 40 * d}, MaxPoints: 120},
		Pace:  1, Step: step,
	})
}

// anyStep stands for whichever step comes.
const anyStep = "*"

// worker is a writer or a job, with a store of its own. Killed, it is what a process is to the servers that is: all its
// connections are closed at once, whatever is under way, and nobody goes on with what it knew.
type worker struct {
	*redishistory.Store
	fire  *fire
	role  string // writer or job
	stop  context.CancelFunc
	ended chan struct{} // closed when it has
	leave sync.Once

	killed atomic.Bool

	mu       sync.Mutex // protects what follows
	random   *rand.Rand
	recorded uint64
	exported uint64 // what its exporter has recorded, once it has drained,
	left     uint64 // and has not brought to the store
	outboxes map[history.Partition]*outbox
}

// outbox is what a writer has sent to a partition, in the order of their numbers, and how many it had acknowledged.
type outbox struct {
	writer string
	sent   []history.Batch
	acked  uint64
}

// start starts a worker that is to die when it comes to a step for the nth time, or at none.
func (f *fire) start(role, die string, nth int64) *worker {
	f.t.Helper()
	f.started++
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{fire: f, role: role, stop: stop, ended: make(chan struct{}),
		outboxes: make(map[history.Partition]*outbox), random: rand.New(rand.NewPCG(*seed<<32+uint64(f.started), 1))}
	var seen atomic.Int64
	var err error
	w.Store, err = f.site.open(func(name string) {
		if (name == die || die == anyStep) && seen.Add(1) == nth {
			w.kill()
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if role == "writer" {
		f.writers = append(f.writers, w)
	}
	go func() {
		defer close(w.ended)
		if role == "writer" {
			w.write(ctx)
		}
		for role == "job" && ctx.Err() == nil {
			if _, err := w.Roll(ctx, history.Job{Now: f.site.now()}); err != nil {
				time.Sleep(20 * time.Millisecond) // a server is away, or a slot moves
			}
		}
		w.cut()
	}()
	return w
}

// cut closes all connections.
func (w *worker) cut() { w.leave.Do(func() { _ = w.Close() }) } // what is under way fails, as it should

// kill ends a worker at this instant.
func (w *worker) kill() {
	w.killed.Store(true)
	w.stop()
	w.cut()
}

// await waits until a worker has ended that was told to.
func (w *worker) await() {
	w.fire.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(process.Hang):
		w.fire.t.Fatalf("a %s has not ended within %v", w.role, process.Hang)
	}
}

// write records hits and exports them until it is told to stop, and drains unless it was killed.
func (w *worker) write(stop context.Context) {
	e := export.New(export.Config{Drain: w.drain, Store: w, Settle: w.Settle, Log: slog.New(slog.DiscardHandler),
		Interval: 40 * time.Millisecond, Timeout: 10 * time.Second, Kept: 10 * time.Minute})
	if e.Run(stop); w.killed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang/2)
	defer cancel()
	e.Close(ctx)
	s := e.Stats()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exported, w.left = s.Recorded, s.Lost+s.Refused+uint64(s.Waiting)+s.Unsettled
	for _, n := range s.Dropped {
		w.left += n
	}
}

// drain records hits of some series.
func (w *worker) drain(_ time.Time, yield func(history.ID, uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range seriesCount {
		if w.random.IntN(4) > 0 {
			hits := 1 + w.random.Uint64N(1000)
			w.recorded += hits
			yield(seriesOf(n), hits)
		}
	}
}

// Apply is the store's. What is sent and what is acknowledged is noted before anything else happens.
func (w *worker) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if b.Seq > 0 {
		b = w.made(p, b)
	}
	r, err := w.Store.Apply(ctx, p, b)
	if err != nil {
		return r, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	box := w.outboxes[p]
	if box != nil && r.Last < box.acked {
		w.fire.gone.Add(1) // it has forgotten some
	}
	if b.Seq > 0 && r.Last >= b.Seq {
		box.acked = b.Seq
		w.fire.acks.Add(1)
	}
	return r, nil
}

// made is a batch with minutes by the site's clock, as the exporter knows only ours: the same whenever it is sent.
func (w *worker) made(p history.Partition, b history.Batch) history.Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outboxes[p] == nil {
		w.outboxes[p] = &outbox{writer: b.Writer}
	}
	box := w.outboxes[p]
	if at := int(b.Seq) - 1; at < len(box.sent) {
		made := box.sent[at]
		made.After = b.After
		return made
	}
	if int(b.Seq) != len(box.sent)+1 || b.Writer != box.writer {
		w.fire.t.Errorf("batch %d of %s for partition %d comes after %d of %s", b.Seq, b.Writer, p, len(box.sent),
			box.writer)
	}
	made := history.Batch{Writer: b.Writer, Seq: b.Seq, After: b.After}
	now, used := w.fire.site.now().Unix()/60, make(map[history.Increment]bool) // no series and minute may come twice
	for _, i := range b.Increments {
		for i.Minute = now - w.late(); used[history.Increment{ID: i.ID, Minute: i.Minute}]; i.Minute-- {
		}
		used[history.Increment{ID: i.ID, Minute: i.Minute}] = true
		made.Increments = append(made.Increments, i)
	}
	box.sent = append(box.sent, made)
	return made
}

// late is how many minutes hits are late: most are not, some by weeks. A few are early, as if a clock were wrong.
func (w *worker) late() int64 {
	const day = 24 * 60
	switch n := w.random.IntN(100); {
	case n < 2:
		return -w.random.Int64N(3 * 60)
	case n < 60:
		return 0
	case n < 85:
		return w.random.Int64N(day)
	case n < 95:
		return w.random.Int64N(12 * day)
	}
	return w.random.Int64N(45 * day)
}
