package faults_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	longForm = flag.Bool("long", false,
		"the long form: 2,000 calls a second, faults as long as the matrix has them, one row after the other")
	seed = flag.Uint64("seed", 1, "chooses the keys that are asked for")
)

// usualOrLong chooses between the usual forms and the long one.
func usualOrLong[T any](usual, theLong T) T {
	if *longForm {
		return theLong
	}
	return usual
}

// row is a fault of the table, and what may come of it.
type row struct {
	number string // in the matrix
	fault  string // as a reader knows it

	quick      bool // it is played in the short form, too
	onlyLong   bool
	on         topology
	window     time.Duration // of the limits of cold and hot keys
	budget     time.Duration // what each call is given; 20 ms unless given
	short      time.Duration // how long the fault lasts in the other forms,
	long       time.Duration // and in the long one
	beginsDown bool          // no server answers when weir starts

	happens func(*scene)
	bounds  bounds
}

// bounds are what a row promises beyond what all of them do.
type bounds struct {
	states     int           // that a key may have had in a window: it is admitted at most its limit in each
	losesState bool          // servers may lose hits that were counted
	gone       bool          // for a while no store decides at all, so that each policy must
	recovery   time.Duration // until stores decide again, from the end of the fault, or its beginning if it does not end

	converges bool // a window after the fault, a key is admitted no more than its limit again
	breaks    bool // each replica says that a breaker is open
	rollout   bool // replicas end and start again; no answer may go without a store, no hit be missing in the history
}

func (r *row) lasts() time.Duration { return usualOrLong(r.short, r.long) }

// rate is how many calls a second there are.
func rate() int { return usualOrLong(300, 2000) }

// setDefaults sets what a row does not say.
func (r *row) setDefaults() {
	r.window = cmp.Or(r.window, time.Minute)
	r.budget = cmp.Or(r.budget, 20*time.Millisecond)
	r.bounds.states = cmp.Or(r.bounds.states, 1)
}

// warmUp is how long all is well before a fault.
func warmUp() time.Duration { return usualOrLong(500*time.Millisecond, 5*time.Second) }

// play runs a row and returns its line in the table.
func (r *row) play(t *testing.T) string {
	r.setDefaults()
	for _, delay := range drainDelays {
		s := &scene{T: t, row: r, record: &record{epoch: time.Now()}, drainDelay: delay}
		s.run()
		if s.starved == "" {
			return s.judge()
		}
		t.Logf("row %s says nothing: %s", r.number, s.starved)
		s.end()
	}
	t.Fatalf("starved: row %s was played %d times", r.number, len(drainDelays))
	return ""
}

// run lets a row happen under load.
func (s *scene) run() {
	s.start()
	s.stalls = watchStalls(s.T, s.record)
	s.load = startLoad(s)
	s.followReplicas()
	if !s.row.beginsDown {
		time.Sleep(warmUp())
	}
	s.row.happens(s)
	s.recovered()
	s.load.stop()
}

// end frees the machine of the replicas.
func (s *scene) end() {
	for _, r := range s.replicas {
		r.Kill()
	}
}

// atOnce bounds how many rows are played at once, as -parallel does: each runs up to ten processes.
func atOnce() int { return usualOrLong(4, 1) }

func TestWeirKeepsItsPromisesInEveryFault(t *testing.T) {
	began := time.Now()
	var mu sync.Mutex
	lines := make([]string, len(rows))
	places := make(chan struct{}, atOnce())
	t.Run("rows", func(t *testing.T) {
		for i := range rows {
			r := rows[i]
			if testing.Short() && !r.quick || r.onlyLong && !*longForm {
				continue
			}
			t.Run(strings.ReplaceAll(r.number+" "+r.fault, " ", "-"), func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				line := r.play(t)
				mu.Lock()
				defer mu.Unlock()
				lines[i] = fmt.Sprintf("%-3s %s: %s", r.number, r.fault, line)
			})
		}
	})
	played := slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	for _, line := range played {
		t.Log(line)
	}
	t.Logf("%d rows in %v", len(played), time.Since(began).Round(time.Second))
}

// share tells how many of how many, in percent.
func share(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// counted lists how often each word came.
func counted(words map[string]int) string {
	var list []string
	for word, n := range words {
		list = append(list, fmt.Sprintf("%s %d", word, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
