package counter

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
)

// A batch that has to be sent again leaves without the checks whose callers have gone meanwhile: nobody would hear of
// their answers, and they would count.
func TestWhoHasLeftIsNotSentAgain(t *testing.T) {
	t.Parallel()
	const hasty = 100 * time.Millisecond
	for name, reply := range map[string]string{
		"after the script was loaded": "-NOSCRIPT No matching script.\r\n",
		"after pauses":                "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := make(chan struct{})
			var mu sync.Mutex
			var sent [][]string // the keys of each command, from when the lane was free again
			var first time.Time
			server := newStub(t, func(n int, command []string) string {
				if command[0] != "evalsha" {
					time.Sleep(2 * hasty)
					return "+OK\r\n"
				}
				if n <= maxOut {
					<-held
					return ones(command)
				}
				mu.Lock()
				defer mu.Unlock()
				if first.IsZero() {
					first = time.Now()
				}
				count, _ := strconv.Atoi(command[2])
				sent = append(sent, command[3:3+count])
				if time.Since(first) < 2*hasty {
					return reply
				}
				return ones(command)
			})
			s := testStore(t, fixed{testClient(t, server.addr, ample)}, ample)
			var calls sync.WaitGroup
			for i := range maxOut { // so that all who come after are in one batch
				calls.Go(func() {
					if err := decide(s, ample, "before"); err != nil {
						t.Error(err)
					}
				})
				wait(t, "a batch is out", func() bool { return server.count("evalsha") == i+1 })
			}
			calls.Go(func() {
				if err := decide(s, ample, "patient"); err != nil {
					t.Error(err)
				}
			})
			calls.Go(func() {
				if err := decide(s, hasty, "hasty"); !errors.Is(err, ErrUnavailable) || backend.ReasonOf(err) != backend.Late {
					t.Errorf("%v, for the reason %v; want to be late", err, backend.ReasonOf(err))
				}
			})
			wait(t, "both wait", func() bool { return waiting(s) == 2 || s.Stats().Unavailable > 0 })
			close(held)
			calls.Wait()
			mu.Lock()
			defer mu.Unlock()
			if last := sent[len(sent)-1]; !slices.Equal(last, []string{plainKey("patient")}) {
				t.Errorf("at last %q were sent, want only the check of the caller who waits", last)
			}
			if s.Stats().Dropped != 1 {
				t.Errorf("%d checks were dropped, want one", s.Stats().Dropped)
			}
		})
	}
}
