package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
)

// blockingStore answers no call before unblock is closed, so that requests stay in flight.
type blockingStore struct {
	backend.Counter
	called  chan struct{} // gets a token for each call of Decide
	unblock chan struct{} // closed to answer them all
}

func (s *blockingStore) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	s.called <- struct{}{}
	select {
	case <-s.unblock:
		return s.Counter.Decide(ctx, checks, out)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startBlocking starts a server with a blockingStore.
func startBlocking(t *testing.T, c Config) (*running, *blockingStore) {
	t.Helper()
	store := &blockingStore{fixture.Memory(t, time.Now), make(chan struct{}, 10), make(chan struct{})}
	r := start(t, setup{Config: c, store: store})
	r.configure(t)
	return r, store
}

// callInBackground makes a call over gRPC and one over HTTP, waits until both are in the store, and returns a channel for
// their errors.
func (r *running) callInBackground(t *testing.T, store *blockingStore) <-chan error {
	t.Helper()
	ended, ann := make(chan error, 2), ask(t, "user=ann")
	go func() {
		_, err := r.client().ShouldRateLimit(context.Background(), ann)
		ended <- err
	}()
	go func() {
		const body = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`
		answer, err := http.Post("http://"+r.http.Address()+"/json", "application/json", bytes.NewBufferString(body))
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				err = fmt.Errorf("over HTTP it is answered %s", answer.Status)
			}
		}
		ended <- err
	}()
	for range 2 {
		await(t, "a call comes to the store", store.called)
	}
	return ended
}

// await receives a value, and fails the test with the promise if none comes.
func await[T any](t *testing.T, promise string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(process.Hang):
		t.Fatalf("not within %v: %s", process.Hang, promise)
	}
	return got
}

// awaitClosed waits until the listener refuses connections, which it does after the drain's delay.
func awaitClosed(t *testing.T, lis net.Listener) {
	t.Helper()
	process.Eventually(t, "the listener is closed", func() error {
		if conn, err := net.Dial("tcp", lis.Addr().String()); err == nil {
			conn.Close()
			return errors.New("it takes connections")
		}
		return nil
	})
}

// awaitDrain waits until the server is not ready any more.
func (r *running) awaitDrain(t *testing.T) {
	t.Helper()
	process.Eventually(t, "the server drains", func() error {
		if r.health.Ready() == nil {
			return errors.New("it is ready")
		}
		return nil
	})
}

// A client's open watch of health must not delay the end of the drain.
func TestDrainFinishesCallsInFlight(t *testing.T) {
	r, store := startBlocking(t, Config{DrainTimeout: time.Hour})
	r.watchHealth(t)
	calls := r.callInBackground(t, store)
	r.stop()
	awaitClosed(t, r.listener)
	awaitClosed(t, r.http.listener)
	select {
	case err := <-r.ended:
		t.Fatalf("the server has ended (%v) while two calls were in flight", err)
	case err := <-calls:
		t.Fatalf("a call has ended with %v before its store answered", err)
	default:
	}
	close(store.unblock)
	for range 2 {
		if err := await(t, "a call ends", calls); err != nil {
			t.Errorf("a call that was under way when the drain began: %v; want its answer", err)
		}
	}
	if err := await(t, "the server ends once its last call has", r.ended); err != nil {
		t.Errorf("the drain ended with %v", err)
	}
}

func TestDrainCutsOffEndlessCalls(t *testing.T) {
	for when, cut := range map[string]struct {
		config Config
		kill   bool
	}{
		"when DrainTimeout is over": {Config{DrainTimeout: time.Millisecond}, false},
		"by a second signal":        {Config{DrainTimeout: time.Hour}, true},
	} {
		r, store := startBlocking(t, cut.config)
		calls := r.callInBackground(t, store)
		r.stop()
		awaitClosed(t, r.listener)
		if cut.kill {
			r.kill()
		}
		for range 2 {
			if err := await(t, "a call is cut off "+when, calls); err == nil {
				t.Errorf("%s a call was answered, though its store never did", when)
			}
		}
		if err := await(t, "the server ends though a call does not", r.ended); err != nil {
			t.Errorf("the drain ended with %v; want no error: the process exits 0", err)
		}
	}
}

// Connections are closed at MaxConnectionAge, so that clients reach new replicas. No call fails because of that.
func TestConnectionAgeFailsNoCalls(t *testing.T) {
	const connections = 4
	r := start(t, setup{Config: Config{MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: process.Hang}})
	r.configure(t)
	seen, calls := make(map[string]bool), 0
	for begin := time.Now(); len(seen) < connections && time.Since(begin) < process.Hang; calls++ {
		var server peer.Peer
		if _, err := r.client().ShouldRateLimit(t.Context(), ask(t, "user=ann"), grpc.Peer(&server)); err != nil {
			t.Fatalf("call %d, on connection %d: %v", calls, len(seen), err)
		}
		seen[server.LocalAddr.String()] = true
	}
	if len(seen) < connections {
		t.Errorf("%d calls in %v came on %d connections, want %d: they are to end at their age", calls, process.Hang, len(seen), connections)
	}
}
