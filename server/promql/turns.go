package promql

import (
	"context"
	"errors"
	"time"
)

const (
	maxWaiting     = 64               // requests that wait for a turn, or for their client to read a small answer
	maxWaitingTime = 30 * time.Second // for a turn
)

// errBusy is that no turn came.
var errBusy = errors.New("too many queries of the history at a time: ask again")

// turns lets some requests be answered at a time, and some more wait. What they hold is so bounded.
type turns struct {
	inside  chan struct{} // those that run, wait, or write what is small
	running chan struct{}
}

func newTurns(atATime int) *turns {
	return &turns{inside: make(chan struct{}, atATime+maxWaiting), running: make(chan struct{}, atATime)}
}

// enter lets a request in, if there is room. It must leave.
func (t *turns) enter() bool {
	select {
	case t.inside <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t *turns) leave() { <-t.inside }

// take waits for a turn, and returns what gives it back, which may be called more than once.
func (t *turns) take(ctx context.Context) (giveBack func(), err error) {
	wait, cancel := context.WithTimeout(ctx, maxWaitingTime)
	defer cancel()
	select {
	case t.running <- struct{}{}:
	case <-wait.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errBusy
	}
	has := true
	return func() {
		if has {
			has = false
			<-t.running
		}
	}, nil
}
