package pipeline

import (
	"testing"
	"time"
)

func TestAServerIsSlowAfterSomeSlowAnswersUntilAPromptOneOrNone(t *testing.T) {
	t.Parallel()
	var l latency
	now := time.Now()
	for i := range minSlowReplies {
		if got := l.fastest(now); got != 0 {
			t.Fatalf("after %d slow answers the server is taken to need %v; want nothing known before %d", i, got, minSlowReplies)
		}
		l.note(30*time.Millisecond+time.Duration(i), now)
	}
	if got := l.fastest(now); got != 30*time.Millisecond {
		t.Errorf("the fastest of the last answers is %v, want 30ms", got)
	}
	l.note(40*time.Millisecond, now)
	if got := l.fastest(now); got != 30*time.Millisecond+1 {
		t.Errorf("once the first of them is old, the fastest is %v, want 30.000001ms", got)
	}
	if got := l.fastest(now.Add(slowFor + 1)); got != 0 {
		t.Errorf("without an answer for a second the server is still taken to need %v", got)
	}
	l.note(time.Millisecond, now)
	if got := l.fastest(now); got != 0 {
		t.Errorf("after a prompt answer the server is still taken to need %v: a machine that stood still has made it slow", got)
	}
}
