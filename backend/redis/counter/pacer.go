package counter

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// promptly is within what time a server answers of which nobody has to ask whether it is too slow.
	promptly = 5 * time.Millisecond
	// fewAnswers is how many answers in a row have to be slow before a server is.
	fewAnswers = 8
	// answersLast is for how long it is believed that a server is slow, after an answer that was.
	answersLast = time.Second
)

// pacer tells callers who are in more of a hurry than others that a server is too slow for them: the others keep its
// breaker closed. The zero value knows nothing, and costs a comparison for each answer while a server is prompt.
type pacer struct {
	some atomic.Bool // there are slow answers

	mu   sync.Mutex
	slow []time.Duration // the last answers, all of them slow
	at   time.Time       // when the last one came
}

// answered notes how long a server took to answer.
func (p *pacer) answered(took time.Duration, now time.Time) {
	prompt := took < promptly
	if prompt && !p.some.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.some.Store(!prompt)
	if prompt {
		p.slow = p.slow[:0]
		return
	}
	if len(p.slow) == fewAnswers {
		p.slow = slices.Delete(p.slow, 0, 1)
	}
	p.slow, p.at = append(p.slow, took), now
}

// fastest returns how long the fastest of the last answers took, 0 if that is prompt or nobody knows.
func (p *pacer) fastest(now time.Time) time.Duration {
	if !p.some.Load() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.slow) < fewAnswers || now.Sub(p.at) > answersLast {
		return 0
	}
	return slices.Min(p.slow)
}
