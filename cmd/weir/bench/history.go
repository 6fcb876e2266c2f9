package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// history is what a weir does with the history of its hits.
type history string

const (
	historyOff   history = "off"
	historyOn    history = "on"    // it keeps it in the bench's Redis
	historyHangs history = "hangs" // it is to keep it in a Redis that takes connections and never answers
)

// hole accepts connections and answers nothing.
type hole struct {
	listener net.Listener
	ended    chan struct{} // closed when it accepts no more
}

func dig() (*hole, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a server that hangs: %w", err)
	}
	h := &hole{l, make(chan struct{})}
	go h.accept()
	return h, nil
}

func (h *hole) accept() {
	defer close(h.ended)
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }() // held open until the end: that is what hangs
	}
}

func (h *hole) close() {
	_ = h.listener.Close()
	<-h.ended
}

// startMeasuring starts the weirs of the scenarios about the history.
func (s *servers) startMeasuring(ctx context.Context, o options, chosen []scenario, dir string) (err error) {
	for _, one := range chosen {
		if one.History == "" {
			continue
		}
		env := []string{"HISTORY=false"}
		switch one.History {
		case historyOn:
			env = []string{"HISTORY=true", "HISTORY_FLUSH_INTERVAL=1s", "REDIS_HISTORY_URL=redis://" + s.store.addr}
		case historyHangs:
			if s.hole, err = dig(); err != nil {
				return err
			}
			env = []string{"HISTORY=true", "HISTORY_FLUSH_INTERVAL=1s", "REDIS_HISTORY_URL=redis://" + s.hole.listener.Addr().String()}
		}
		dir := filepath.Join(dir, one.Name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
		weir, err := startWeir(ctx, o.Binary, append(env, o.Env...), o.Connections, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
		if s.measuring == nil {
			s.measuring = make(map[history]*server)
		}
		s.measuring[one.History] = weir
	}
	return nil
}
