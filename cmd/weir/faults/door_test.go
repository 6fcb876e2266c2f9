package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

const (
	hostileClients = 200 // each on a connection of its own
	attackedCap    = 512 // what a weir may ever hold of memory, in MB, by all attacks but those that dribble
	dribbledCap    = 1024

	// A hostile client of which weir reads nothing for so long has sent what it can; one that was closed comes back later.
	unread, comeBack = 10 * time.Second, time.Second
)

// besiege plays the attack by all hostile clients until ctx ends. It returns once each has sent what it could.
func (a *attack) besiege(ctx context.Context, t *testing.T, addr string) {
	var sending sync.WaitGroup
	says := a.encode()
	for range hostileClients {
		first, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("a hostile client cannot connect: %v; the row says nothing", err)
		}
		sending.Add(1)
		sent := sync.OnceFunc(sending.Done)
		go func() {
			for conn := first; err == nil; conn, err = net.Dial("tcp", addr) {
				a.play(ctx, conn, says, sent)
				sent()
				select {
				case <-ctx.Done():
					return
				case <-time.After(comeBack):
				}
			}
		}()
	}
	sending.Wait()
}

// play attacks on a connection until weir closes it, or ctx ends, or the client leaves to come back. It calls sent once it
// has sent what it could.
func (a *attack) play(ctx context.Context, conn net.Conn, says []byte, sent func()) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if a.frames == nil {
		fillWindows(conn, a.streams)
		sent()
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	closed := make(chan struct{})
	if a.does&readsNothing > 0 {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		context.AfterFunc(ctx, func() { close(closed) })
	} else {
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			close(closed)
		}()
	}
	_ = conn.SetWriteDeadline(time.Now().Add(unread))
	_, err := conn.Write(says)
	sent()
	if err == nil && a.does&floods == 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		<-closed
	}
}

// honest is a client that asks every two milliseconds, and what became of its calls.
type honest struct {
	*weirtest.Load
	began  time.Time
	took   []time.Duration // of the calls that were answered
	failed []error
}

// startHonest begins to ask a replica on a connection of its own.
func startHonest(t *testing.T, r *replica) *honest {
	h, client := &honest{began: time.Now()}, r.Client(t)
	h.Load = weirtest.StartLoad(t, 1, func(int) error {
		time.Sleep(2 * time.Millisecond)
		asked := time.Now()
		status, err := client.Hit(countPlan("allow"), "0")
		if err == nil && status.GetCurrentLimit().GetRequestsPerUnit() != countLimit {
			err = fmt.Errorf("it is answered %v", status)
		}
		if err != nil {
			h.failed = append(h.failed, err)
		} else {
			h.took = append(h.took, time.Since(asked))
		}
		return nil
	})
	return h
}

// row returns the cells of a row: how many were answered and failed, and in what time, which nothing is to hang on.
func (h *honest) row() string {
	slices.Sort(h.took)
	at := func(share float64) float64 { return h.took[int(share*float64(len(h.took)-1))].Seconds() * 1e3 }
	return fmt.Sprintf("%d | %.0f | %d | %.1f | %.1f | %.1f", len(h.took), float64(len(h.took))/time.Since(h.began).Seconds(), len(h.failed),
		at(0.5), at(0.99), at(1))
}

func TestHostileConnectionsTakeNeitherMemoryNorService(t *testing.T) {
	lasts, answers := 10*time.Second, int64(100)
	if testing.Short() {
		lasts = 0
	}
	if process.Raced() { // a weir with the race detector is many times as slow, and what it holds says nothing
		lasts, answers = 0, 10
	}
	t.Logf("| attack by %d connections | RSS, at most MB | honest answers | a second | failed | p50 ms | p99 | max |", hostileClients)
	for _, a := range attacks {
		if testing.Short() && a.does&quick == 0 {
			continue
		}
		answers := answers
		if testing.Short() && a.does&floods > 0 { // beside a flood an answer takes half a second of all cores
			answers = 10
		}
		t.Run(a.number+" "+a.what, func(t *testing.T) {
			r := startReplica(t, rules(time.Minute))
			good := startHonest(t, r)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			a.besiege(ctx, t, r.GRPC)
			time.Sleep(lasts)
			good.Reach(t, answers) // what weir has not closed stays
			leave()
			good.WantNoFailures(t, "the honest client asks on")
			held := r.PeakMemory(t) / 1e6
			most := attackedCap
			if a.does&dribbles > 0 {
				most = dribbledCap
			}
			if held > most && !process.Raced() {
				t.Errorf("weir held %d MB; want at most %d", held, most)
			}
			if len(good.failed) > 0 {
				t.Errorf("an honest client is served beside whatever others do; of its calls %d failed, the first with: %v", len(good.failed),
					good.failed[0])
			}
			t.Logf("| %s | %d | %s |", a.what, held, good.row())
		})
	}
}
