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

// The settings of the test's store, and the timeouts of its callers.
const (
	testMaxInFlight = 16
	testPace        = time.Millisecond
	callerTimeout   = 18 * time.Millisecond // less than Envoy's default of 20 ms
	longTimeout     = time.Minute
)

var errAway, errStore = errors.New("silence"), errors.New("the store is unavailable")

// fake is the Codec and the Peer of one server, which answers once the test releases it. A request's State is its key.
type fake struct {
	*Engine[string]
	server   *Server[string]
	released chan struct{} // once closed, batches are answered
	batches  [][]string
	requeues int                     // how many more batches to requeue
	note     func(b *Batch[string])  // called for each answered batch, if not nil
	pong     func() (Outcome, error) // answers a PING
	changes  []State
}

// testServer runs a test in a synctest bubble, with a server of queues that have at most out batches in flight each.
func testServer(t *testing.T, queues, out int, test func(t *testing.T, f *fake)) {
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
	again := f.requeues > 0
	f.requeues--
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

// answerPings makes pong answer each PING from now on.
func (f *fake) answerPings(pong func() (Outcome, error)) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	f.pong = pong
}

func (f *fake) Changed(_, after State, _ error) { f.changes = append(f.changes, after) }

// release lets the server answer all batches from now on.
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

// sentBatches returns the keys of the batches so far, once all goroutines are blocked.
func (f *fake) sentBatches() [][]string {
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

// decide calls Decide with a hit on each key. Its error is that of the first check without an answer.
func (f *fake) decide(ctx context.Context, timeout time.Duration, keys ...string) error {
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

// decideAsync calls decide in the background, and returns a channel for its error.
func (f *fake) decideAsync(t *testing.T, timeout time.Duration, keys ...string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f.decide(t.Context(), timeout, keys...) }()
	synctest.Wait()
	return done
}

// fillQueue brings the first queue to its limit of batches in flight, with one check each.
func (f *fake) fillQueue(t *testing.T) {
	t.Helper()
	for range testMaxInFlight {
		f.decideAsync(t, longTimeout, "first")
		time.Sleep(testPace)
	}
	if n := len(f.sentBatches()); n != testMaxInFlight {
		t.Fatalf("%d batches are in flight, want %d although none is answered", n, testMaxInFlight)
	}
}

func wantReason(t *testing.T, err error, want backend.Reason) {
	t.Helper()
	if got := backend.ReasonOf(err); got != want || !errors.Is(err, errStore) {
		t.Errorf("%v, for the reason %v; want %v", err, got, want)
	}
}
