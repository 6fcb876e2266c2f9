package outbound

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// What a store of the tests keeps to, and how long its callers wait: as Envoy's, and for whoever must be answered.
const (
	testOut  = 16
	testPace = time.Millisecond
	patient  = 18 * time.Millisecond
	ample    = time.Minute
)

var errAway, errStore = errors.New("silence"), errors.New("the store is unavailable")

// fake is a store of one server that answers when a test lets it. A request's State is its key. It runs in a bubble of
// time, so that all is as exact as its clock.
type fake struct {
	*Engine[string]
	server   *Server[string]
	released chan struct{} // once closed, batches are answered
	batches  [][]string
	again    int                     // how often the requests of a batch are asked again
	note     func(b *Batch[string])  // what a batch shows; nil: nothing
	pong     func() (Outcome, error) // nil: silence
	changes  []State
}

// store runs a test on a store in a bubble.
func store(t *testing.T, queues, out int, test func(t *testing.T, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{released: make(chan struct{}), pong: func() (Outcome, error) { return Lost, errAway }}
		f.Engine = New(Config{ErrUnavailable: errStore, Timeout: time.Hour, Pace: testPace}, f)
		f.server = f.Open("server", f, queues, out)
		test(t, f)
		f.release()
		f.close(backend.ErrClosed)
		f.Wait()
	})
}

func (f *fake) Encode(text []byte, c *backend.Check, r *Request[string]) ([]byte, *Queue[string], error) {
	r.State = string(c.Key)
	return text, f.server.Queues[len(c.Key)%len(f.server.Queues)], nil
}

func (f *fake) Decode(*Request[string], *backend.Check) (d backend.Decision, err error) {
	return d, nil
}

func (f *fake) Reopen(*Queue[string]) (*Queue[string], error) { return nil, backend.ErrClosed }

func (f *fake) ReasonOf(error) backend.Reason { return backend.Late }

func (f *fake) Exchange(b *Batch[string]) {
	var keys []string
	for _, r := range b.Requests {
		keys = append(keys, r.State)
	}
	f.server.mu.Lock()
	f.batches = append(f.batches, keys)
	again := f.again > 0
	f.again--
	f.server.mu.Unlock()
	end := f.server.Trace(b.Requests)
	<-f.released
	end(Answered.String(), nil)
	if f.note != nil {
		f.note(b)
	}
	for _, r := range b.Requests {
		if again {
			b.Requeue(r)
		} else {
			r.Answer(nil)
		}
	}
}

func (f *fake) Pings() (ping func(context.Context) (Outcome, error), end func()) {
	return func(context.Context) (Outcome, error) {
		f.server.mu.Lock()
		pong := f.pong
		f.server.mu.Unlock()
		return pong()
	}, func() {}
}

// answerPings has pong answer each PING from now on.
func (f *fake) answerPings(pong func() (Outcome, error)) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	f.pong = pong
}

func (f *fake) Changed(_, after State, _ error) { f.changes = append(f.changes, after) }

// release answers everything from now on.
func (f *fake) release() {
	select {
	case <-f.released:
	default:
		close(f.released)
	}
}

func (f *fake) close(why error) {
	if f.Close() {
		f.server.Close(why)
	}
}

// got returns the batches so far, once nothing moves any more.
func (f *fake) got() [][]string {
	synctest.Wait()
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	return slices.Clone(f.batches)
}

func (f *fake) waiting() int {
	synctest.Wait()
	_, waiting, _ := f.server.Load()
	return waiting
}

// ask makes a call for a hit on each key. Its error is that of the first check without an answer.
func (f *fake) ask(ctx context.Context, timeout time.Duration, keys ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	checks := make([]backend.Check, len(keys))
	for i, key := range keys {
		checks[i] = backend.Check{Key: []byte(key), Hits: 1, Limits: []descriptors.Limit{
			{Requests: 1, Window: time.Minute, Algorithm: descriptors.FixedWindow}}}
	}
	out := make([]backend.Decision, len(keys))
	err := f.Decide(ctx, checks, out)
	for i := 0; i < len(out) && err == nil; i++ {
		err = out[i].Err
	}
	return err
}

// begin makes a call in the background, and returns a channel with what came of it.
func (f *fake) begin(t *testing.T, timeout time.Duration, keys ...string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f.ask(t.Context(), timeout, keys...) }()
	synctest.Wait()
	return done
}

// fill gives the first queue as many batches as may be out, of a check each.
func (f *fake) fill(t *testing.T) {
	t.Helper()
	for range testOut {
		f.begin(t, ample, "first")
		time.Sleep(testPace)
	}
	if n := len(f.got()); n != testOut {
		t.Fatalf("%d batches are out, want %d although none comes back", n, testOut)
	}
}

func wantReason(t *testing.T, err error, want backend.Reason) {
	t.Helper()
	if got := backend.ReasonOf(err); got != want || !errors.Is(err, errStore) {
		t.Errorf("%v, for the reason %v; want %v", err, got, want)
	}
}
