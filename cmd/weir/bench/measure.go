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
	servers   *servers
	progress  io.Writer
}

// outcome is all that was measured of one scenario.
type outcome struct {
	scenario
	rounds []round
}

// round is what one scenario showed in one round.
type round struct {
	Unpaced   sample
	HalfLoad  sample  // at half of its rate; empty if the options leave it out
	Floors    float64 // CPU of a request at full load, over the floor's
	Answers   float64 // a second at full load, over the floor's
	Commands  float64 // the store's CPU of a request at full load, over that of one INCRBY or incr right before
	LostRaces float64 // in memcached, of Exchanges, warm-up included
	Exchanges float64
}

// rounds measures everything. The rounds are interleaved, so that a machine that slows down for a while slows all of
// them.
func (m *measurement) rounds(ctx context.Context) ([]outcome, error) {
	outcomes := make([]outcome, len(m.scenarios))
	loads := make([]*load, len(m.scenarios))
	for i, s := range m.scenarios {
		requests, err := s.requests()
		if err != nil {
			return nil, err
		}
		outcomes[i].scenario = s
		loads[i] = &load{server: m.servers.at[s.Place], inFlight: m.options.InFlight, requests: requests, want: s.Want}
		if s.Long {
			loads[i].inFlight, loads[i].deadline = longInFlight, longDeadline
		}
	}
	for n := range m.options.Rounds {
		floors := make(map[string]sample)
		for i, s := range m.scenarios {
			r, err := m.round(ctx, s, loads[i])
			if err != nil {
				return nil, fmt.Errorf("scenario %s, round %d: %w", s.Name, n+1, err)
			}
			if s.Place == onFloor {
				floors[s.Name] = r.Unpaced
			}
			floor := floors[s.floor()]
			r.Floors = r.Unpaced.CPUMicros / floor.CPUMicros
			r.Answers = r.Unpaced.RequestsPerSecond / floor.RequestsPerSecond
			outcomes[i].rounds = append(outcomes[i].rounds, r)
			_, _ = fmt.Fprintf(m.progress, "round %d of %d  %-36s %7.0f requests/s  %5.1f µs  %.2f floors%s\n",
				n+1, m.options.Rounds, s.Title, r.Unpaced.RequestsPerSecond, r.Unpaced.CPUMicros, r.Floors, r.storeCost())
		}
	}
	return outcomes, nil
}

// storeCost returns what the progress says of a round's cost in the store.
func (r round) storeCost() string {
	if r.Commands == 0 {
		return ""
	}
	text := fmt.Sprintf("  %.1f INCRBYs", r.Commands)
	if r.Exchanges > 0 {
		text += fmt.Sprintf("  %.1f %% of %.0f exchanges lost a race", 100*r.LostRaces/r.Exchanges, r.Exchanges)
	}
	return text
}

// round measures one scenario at full load and at half of it. It probes the server before.
func (m *measurement) round(ctx context.Context, s scenario, l *load) (round, error) {
	var r round
	if err := s.probe(ctx, l.server.conns[0]); err != nil {
		return r, err
	}
	command := 0.0
	races, err := l.server.races()
	if err != nil {
		return r, err
	}
	if store := l.server.store; store != nil {
		if command, err = store.commandCost(ctx, m.options.Measure); err != nil {
			return r, err
		}
	}
	full := phase{warmUp: m.options.WarmUp, measure: m.options.Measure}
	if r.Unpaced, err = l.run(ctx, full); err != nil {
		return r, fmt.Errorf("full load: %w", err)
	}
	if command > 0 {
		r.Commands = r.Unpaced.StoreMicros / command
	}
	after, err := l.server.races()
	if err != nil {
		return r, err
	}
	r.LostRaces, r.Exchanges = after.lost-races.lost, after.exchanges-races.exchanges
	if m.options.HalfLoad > 0 {
		rate := r.Unpaced.RequestsPerSecond / 2
		if r.HalfLoad, err = l.run(ctx, phase{warmUp: m.options.WarmUp, measure: m.options.HalfLoad, rate: rate}); err != nil {
			return r, fmt.Errorf("half load: %w", err)
		}
	}
	return r, nil
}
