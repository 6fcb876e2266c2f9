package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// held is a stub that answers only when a test lets it, the keys of each batch it has, and a pipeline that asks it.
type held struct {
	*redistest.Stub
	pipeline *Pipeline
	release  func() // from then on everything is answered
	calls    sync.WaitGroup

	mu      sync.Mutex
	batches [][]string
}

func holdAndThen(t *testing.T, answer func(n int, command []string) string) *held {
	released := make(chan struct{})
	h := &held{release: sync.OnceFunc(func() { close(released) })}
	h.Stub = redistest.NewStub(t, func(n int, command []string) string {
		if command[0] == "evalsha" {
			keys, _ := strconv.Atoi(command[2])
			h.mu.Lock()
			h.batches = append(h.batches, command[3:3+keys])
			h.mu.Unlock()
			<-released
		}
		return answer(n, command)
	})
	t.Cleanup(h.release)
	h.pipeline = testPipeline(t, h.Addr, ample)
	return h
}

func (h *held) got() [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.batches)
}

// ask makes a call, which is to be answered.
func (h *held) ask(t *testing.T, keys ...string) {
	h.calls.Go(func() {
		if err := decide(h.pipeline, ample, keys...); err != nil {
			t.Error(err)
		}
	})
}

// fill gives the queue as many batches as may be out, of a check each.
func (h *held) fill(t *testing.T) {
	t.Helper()
	for i := range maxOut {
		h.ask(t, fmt.Sprint("first ", i))
		redistest.Until(t, "batches leave although none comes back", func() bool { return len(h.got()) == i+1 })
	}
}

// finish answers everything, and waits for the callers.
func (h *held) finish() {
	h.release()
	h.calls.Wait()
}

func waiting(p *Pipeline) (n int) {
	for _, server := range p.Stats().Servers {
		n += server.Waiting
	}
	return n
}

// A batch that has to be sent again leaves without the checks whose callers have gone meanwhile: nobody would hear of
// their answers, and they would count.
func TestRetryDropsChecksWithoutCallers(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"after the script was loaded": "-NOSCRIPT No matching script.\r\n",
		"after a pause":               "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			server := holdAndThen(t, func(n int, command []string) string {
				switch {
				case command[0] != "evalsha":
					return "+OK\r\n"
				case n == maxOut+1: // both are in this batch
					leave()
					<-left
					return reply
				}
				return redistest.Ones(command)
			})
			p := server.pipeline
			server.fill(t) // so that all who come after are in one batch
			server.ask(t, "patient")
			server.calls.Go(func() {
				defer close(left)
				if err := decideUntil(ctx, p, "hasty"); !errors.Is(err, ErrUnavailable) || backend.ReasonOf(err) != backend.Late {
					t.Errorf("%v, for the reason %v; want to be late", err, backend.ReasonOf(err))
				}
			})
			redistest.Until(t, "both wait", func() bool { return waiting(p) == 2 })
			server.finish()
			sent := server.got()
			if last := sent[len(sent)-1]; !slices.Equal(last, []string{redistest.SumKey("patient")}) {
				t.Errorf("at last %q were sent, want only the check of the caller who waits", last)
			}
			if p.Stats().Dropped != 1 {
				t.Errorf("%d checks were dropped, want one", p.Stats().Dropped)
			}
		})
	}
}

func TestQueuesOfRemovedServersAreDeleted(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, redistest.NewStub(t, redistest.Answers(nil)).Addr, ample)
	queues := func(after time.Duration) int {
		p.retire(time.Now().Add(after))
		return len(p.Stats().Servers)
	}
	for range 2 {
		if err := decide(p, ample, "a"); err != nil {
			t.Fatal(err)
		}
		if got := queues(time.Minute / 2); got != 1 {
			t.Fatalf("%d queues half a minute after the last check, want 1", got)
		}
		redistest.Until(t, "a queue is forgotten a minute after its last check", func() bool {
			return queues(time.Minute+ample) == 0
		})
	}
}
