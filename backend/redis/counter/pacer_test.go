package counter

import (
	"testing"
	"time"
)

func TestAServerIsSlowAfterSomeSlowAnswersUntilAPromptOneOrNone(t *testing.T) {
	t.Parallel()
	var p pacer
	now := time.Now()
	for i := range fewAnswers {
		if got := p.fastest(now); got != 0 {
			t.Fatalf("after %d slow answers the server is taken to need %v; want nothing known before %d", i, got, fewAnswers)
		}
		p.answered(30*time.Millisecond+time.Duration(i), now)
	}
	if got := p.fastest(now); got != 30*time.Millisecond {
		t.Errorf("the fastest of the last answers is %v, want 30ms", got)
	}
	p.answered(40*time.Millisecond, now)
	if got := p.fastest(now); got != 30*time.Millisecond+1 {
		t.Errorf("once the first of them is old, the fastest is %v, want 30.000001ms", got)
	}
	if got := p.fastest(now.Add(answersLast + 1)); got != 0 {
		t.Errorf("without an answer for a second the server is still taken to need %v", got)
	}
	p.answered(time.Millisecond, now)
	if got := p.fastest(now); got != 0 {
		t.Errorf("after a prompt answer the server is still taken to need %v: a machine that stood still has made it slow", got)
	}
}
