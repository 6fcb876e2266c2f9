package pipeline

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

const (
	// minProbeGap is the least time between probes.
	minProbeGap = time.Second
	// maxProbeGap is the longest time between probes while a server is away.
	maxProbeGap = 5 * time.Second
	// healthyProbeGap is the longest time between probes while all servers are healthy; the shortest is half of it.
	healthyProbeGap = 10 * time.Minute
)

// Probe checks that a server can count. Its error names the remedy.
type Probe func(ctx context.Context, server topology.Server) error

// health probes the servers at the start, and after each check without an answer, as that may only have had a short
// deadline. It logs each change of a server once. Before start it has no error and lists no server.
type health struct {
	onProbe func() // called after each probe
	servers func(context.Context) ([]topology.Server, error)
	probe   Probe
	config  topology.Config
	started time.Time

	ctx       context.Context // until Close
	stop      context.CancelFunc
	done      sync.WaitGroup
	wake      chan struct{} // has a token if a check contradicts the last probe
	unhealthy atomic.Bool   // a server was away at the last probe
	everUp    atomic.Bool   // a server could count at least once
	lastErr   atomic.Pointer[error]
	ready     context.Context // ends once a server can count, or GiveUp is over
	setReady  context.CancelFunc

	statuses atomic.Pointer[map[string]status] // by server, and of serverList, from the last probe; nil before start
}

var errNotProbed = errors.New("redis has not been asked yet whether it can count")

func newHealth(s *topology.Servers, onProbe func()) *health {
	h := &health{servers: s.All, config: s.Config, onProbe: onProbe, wake: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.ready, h.setReady = context.WithCancel(context.Background())
	h.lastErr.Store(new(error))
	return h
}

// start starts to probe the servers in the background, until end.
func (h *health) start(probe Probe) {
	h.probe, h.started = probe, time.Now()
	h.lastErr.Store(&errNotProbed)
	h.statuses.Store(new(map[string]status))
	h.done.Go(func() { h.run(h.ctx) })
}

// probeErr returns nil if a server could count when they were last probed.
func (h *health) probeErr() error { return *h.lastErr.Load() }

// await waits until a server has shown that it can count, or Config.GiveUp is over.
func (h *health) await(ctx context.Context) error {
	if h.statuses.Load() == nil {
		return nil
	}
	select {
	case <-h.ready.Done():
		if h.everUp.Load() {
			return nil
		}
		return h.probeErr()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// report wakes the probes if a check contradicts the last one. It must be called for each check, and is cheap.
func (h *health) report(answered bool) {
	if answered != h.unhealthy.Load() {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// end ends the probes.
func (h *health) end() {
	h.stop()
	h.done.Wait()
}

func (h *health) run(ctx context.Context) {
	for pause := h.config.ProbePause; ; {
		found, err := h.probeAll(ctx)
		if ctx.Err() != nil {
			return
		}
		earliest := time.Now().Add(min(minProbeGap, h.config.ProbePause)) // of the next probe
		if h.update(found, err) {
			pause = h.config.ProbePause
		}
		if h.everUp.Load() || h.config.GiveUp > 0 && time.Since(h.started) >= h.config.GiveUp {
			h.setReady()
		}
		h.wait(ctx, pause)
		select {
		case <-time.After(time.Until(earliest)):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, h.config.LongestProbePause)
		if h.everUp.Load() {
			pause = min(pause, maxProbeGap)
		}
	}
}

// wait waits until the next probe. While all servers are healthy, it is due when a check gets no answer, or after
// healthyProbeGap; else when a check gets an answer, after about pause, or when GiveUp is over.
func (h *health) wait(ctx context.Context, pause time.Duration) {
	if !h.unhealthy.Load() {
		pause = healthyProbeGap
	}
	pause = pause/2 + rand.N(pause/2+1)
	if rest := h.config.GiveUp - time.Since(h.started); h.unhealthy.Load() && h.config.GiveUp > 0 && rest > 0 {
		pause = min(pause, rest)
	}
	select {
	case <-h.wake:
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// probeResult is a probe's result for a server.
type probeResult struct {
	topology.Server
	err error
}

// serverList is the name of the status of the list of servers itself, which a cluster may fail to return.
const serverList = ""

// status is a server's state at a probe.
type status struct {
	state backend.ServerState
	reply string // the reply of a failing server, without ports and the like, which differ each time
}

func (f probeResult) status() status {
	found := status{state: Classify(f.err, true).State}
	if reply := goredis.Error(nil); found.state == backend.ServerFailing && errors.As(f.err, &reply) {
		found.reply = reply.Error()
	}
	return found
}

// probeAll probes all servers at once. Its error means that the servers cannot be listed.
func (h *health) probeAll(ctx context.Context) ([]probeResult, error) {
	servers, err := h.servers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(servers, func(a, b topology.Server) int { return strings.Compare(a.Name, b.Name) })
	found := make([]probeResult, len(servers))
	var running sync.WaitGroup
	for i, server := range servers {
		running.Go(func() { found[i] = probeResult{server, h.probe(ctx, server)} })
	}
	running.Wait()
	return found, nil
}

// update stores the results of a probe, and reports whether they changed. err is the error of listing the servers.
func (h *health) update(found []probeResult, err error) (changed bool) {
	up, failed := 0, []error(nil)
	last := *h.statuses.Load()
	now := make(map[string]status, len(found)+1)
	if err != nil { // no server was probed
		maps.Copy(now, last)
	}
	for _, f := range append(found, probeResult{Server: topology.Server{Name: serverList}, err: err}) {
		before, listed := last[f.Name]
		if !listed {
			before.state = backend.ServerUp
		}
		now[f.Name] = f.status()
		failed = append(failed, f.err)
		if f.err == nil && f.Name != serverList {
			up++
		}
		if now[f.Name] != before {
			changed = true
			h.logChange(f, before.state)
		}
	}
	h.statuses.Store(&now)
	joined := errors.Join(failed...)
	h.unhealthy.Store(joined != nil)
	if up > 0 {
		joined = nil
	}
	h.lastErr.Store(&joined)
	if up > 0 && !h.everUp.Swap(true) {
		h.config.Log.Info("Redis is ready", "servers", up)
	}
	h.onProbe()
	return changed
}

// logChange logs that a server, or the list of servers, is lost or back. Both have the same level, so that a filter
// passes both or none.
func (h *health) logChange(f probeResult, before backend.ServerState) {
	lost, back, log := "redis server cannot count", "redis server can count again", h.config.Log.With("server", f.Name)
	now := f.status().state
	bad := now
	if now == backend.ServerUp {
		bad = before
	}
	switch {
	case f.Name == serverList:
		lost, back, log = "cannot list Redis servers", "can list Redis servers again", h.config.Log
	case bad == backend.ServerAway && f.LogsLoss:
		return
	case bad == backend.ServerAway:
		lost, back = "redis server does not answer", "redis server answers again"
	}
	if now == backend.ServerUp {
		log.Warn(back)
	} else {
		log.Warn(lost, "error", f.err)
	}
}
