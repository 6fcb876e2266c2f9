package main

import (
	"context"
	"fmt"
	"io"
)

// measurement is one run of the bench: every scenario in every round.
type measurement struct {
	options   options
	scenarios []scenario // the floor is the first
	servers   servers
	progress  io.Writer
}

// outcome is all that was measured of one scenario.
type outcome struct {
	scenario
	Rounds []round `json:"rounds"`
}

// round is what one scenario showed in one round.
type round struct {
	Unpaced       sample  `json:"unpaced"`
	HalfLoad      *sample `json:"half_load,omitempty"`      // at the share of it that the options say
	Floors        float64 `json:"floors,omitempty"`         // CPU of a request at full load, over the floor's
	IncrByMicros  float64 `json:"incrby_us,omitempty"`      // Redis CPU of one INCRBY, right before
	IncrBys       float64 `json:"incrbys,omitempty"`        // Redis CPU of a request at full load, over that
	ResidentBytes int64   `json:"resident_bytes,omitempty"` // the server's memory afterwards
}

// rounds measures everything. The rounds are interleaved, so that a machine that slows down for a while slows all of
// them.
func (m *measurement) rounds(ctx context.Context) ([]outcome, error) {
	outcomes := make([]outcome, len(m.scenarios))
	loads := make([]*load, len(m.scenarios))
	for i, s := range m.scenarios {
		requests, err := s.requests(m.options.Keys)
		if err != nil {
			return nil, err
		}
		outcomes[i].scenario = s
		loads[i] = &load{server: m.servers.of(s), inFlight: m.options.InFlight, requests: requests, want: s.Want}
	}
	for n := range m.options.Rounds {
		var floorCPU float64
		for i, s := range m.scenarios {
			r, err := m.round(ctx, s, loads[i])
			if err != nil {
				return nil, fmt.Errorf("scenario %s, round %d: %w", s.Name, n+1, err)
			}
			if s.Name == floorName {
				floorCPU = r.Unpaced.CPUMicros
			}
			if floorCPU > 0 {
				r.Floors = r.Unpaced.CPUMicros / floorCPU
			}
			outcomes[i].Rounds = append(outcomes[i].Rounds, r)
			_, _ = fmt.Fprintf(m.progress, "round %d of %d  %-36s %7.0f requests/s  %5.1f µs  %.2f floors%s\n",
				n+1, m.options.Rounds, s.Title, r.Unpaced.RequestsPerSecond, r.Unpaced.CPUMicros, r.Floors, r.onRedis())
		}
	}
	return outcomes, nil
}

// onRedis returns what the progress says of a round's cost in Redis.
func (r round) onRedis() string {
	if r.IncrBys == 0 {
		return ""
	}
	return fmt.Sprintf("  %.1f INCRBYs", r.IncrBys)
}

// round measures one scenario at full load and at a share of it. It probes the server before and after.
func (m *measurement) round(ctx context.Context, s scenario, l *load) (round, error) {
	var r round
	remaining, err := s.probe(ctx, l.server.conns[0], m.options.Keys)
	if err != nil {
		return r, err
	}
	if store := l.server.store; store != nil {
		if r.IncrByMicros, err = store.yardstick(ctx, m.options.Keys, m.options.Measure); err != nil {
			return r, err
		}
	}
	full := phase{warmUp: m.options.WarmUp, measure: m.options.Measure}
	if r.Unpaced, err = l.run(ctx, full); err != nil {
		return r, fmt.Errorf("full load: %w", err)
	}
	if r.IncrByMicros > 0 {
		r.IncrBys = r.Unpaced.RedisMicros / r.IncrByMicros
	}
	if m.options.HalfLoad > 0 {
		rate := m.options.Share * r.Unpaced.RequestsPerSecond
		paced, err := l.run(ctx, phase{warmUp: m.options.WarmUp, measure: m.options.HalfLoad, rate: rate})
		if err != nil {
			return r, fmt.Errorf("%s: %w", pacedName(m.options.Share), err)
		}
		r.HalfLoad = &paced
	}
	if err := s.confirm(ctx, l.server.conns[0], remaining); err != nil {
		return r, fmt.Errorf("after the load: %w", err)
	}
	r.ResidentBytes, err = l.server.resident()
	return r, err
}
