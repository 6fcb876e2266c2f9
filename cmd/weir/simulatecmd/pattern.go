package simulatecmd

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// pattern is generated traffic. The same pattern makes the same requests.
type pattern struct {
	kind, domain string
	callers      [][]descriptors.Descriptor // by caller, the descriptors of its requests
	rate         float64                    // mean requests a second of each caller
	length       time.Duration
	window       time.Duration // of the limit that bursts are made for
	burst        int           // requests at once: as many as that limit admits
	random       *rand.Rand
}

// requests returns an estimate of the number of requests.
func (p *pattern) requests() float64 { return p.rate * p.length.Seconds() * float64(len(p.callers)) }

// newCallers returns the descriptors of n callers. text is that of a request, in which # stands for a caller's number.
func newCallers(text string, n int) (all [][]descriptors.Descriptor, err error) {
	if !strings.Contains(text, "#") && n > 1 {
		return nil, errors.New("--descriptor: write # where a caller's number is to stand, as in user=u#, or leave --callers out")
	}
	for i := range n {
		d, err := parseRequest(strings.ReplaceAll(text, "#", strconv.Itoa(i+1)))
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// begin is the beginning of patterns: midnight, at which the hours of a day, and windows, begin too.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// heavyFactor is how many times as many requests as each other caller the first caller of one-of-many sends.
const heavyFactor = 20

// traffic makes the arrivals of the pattern: of a Poisson process, in bursts of as many as fit at once, thinned by the
// hour of the day, or with a share for the first caller.
func (p *pattern) traffic(yield func(request) error) error {
	if p.kind == "boundary" {
		return p.boundary(yield)
	}
	many, burst := float64(len(p.callers)), 1
	rate, first := p.rate*many, 1/many
	switch p.kind {
	case "day":
		rate *= 1 + dayCurve(12)
	case "bursts":
		burst = p.burst
	case "one-of-many":
		first = heavyFactor / (heavyFactor + many - 1)
	}
	for at := 0.; ; {
		at += p.random.ExpFloat64() / (rate / float64(burst))
		if at >= p.length.Seconds() {
			return nil
		}
		if p.kind == "day" && p.random.Float64()*(1+dayCurve(12)) > 1+dayCurve(at/3600) {
			continue
		}
		who := 0
		if len(p.callers) > 1 && p.random.Float64() >= first {
			who = 1 + p.random.IntN(len(p.callers)-1)
		}
		for range burst {
			if err := yield(p.request(who, at)); err != nil {
				return err
			}
		}
	}
}

// dayCurve returns the relative deviation of an hour of the day from the mean load: 0.9 at noon, -0.9 at midnight.
func dayCurve(hour float64) float64 { return -.9 * math.Cos(hour/24*2*math.Pi) }

// boundary makes two bursts of every caller, just before and just after the beginning of every second window of the
// clock.
func (p *pattern) boundary(yield func(request) error) error {
	spread := min(p.window/20, time.Second).Seconds()
	first := begin.Truncate(p.window).Add(p.window).Sub(begin).Seconds()
	for turn := first; turn+spread < p.length.Seconds(); turn += 2 * p.window.Seconds() {
		for _, from := range [...]float64{turn - spread, turn} {
			for i := range p.burst {
				for who := range p.callers {
					if err := yield(p.request(who, from+spread*float64(i)/float64(p.burst))); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (p *pattern) request(who int, at float64) request {
	return request{at: begin.Add(time.Duration(math.Round(at*1e6)) * time.Microsecond), domain: p.domain, descriptors: p.callers[who]}
}
