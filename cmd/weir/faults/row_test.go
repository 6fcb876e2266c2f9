package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

)

// row is a fault of the table, and what may come of it.
type row struct {
	number string // in the matrix
	fault  string // as a reader knows it

	on         topology
	settings   []string      // of the replicas, NAME=value
	window     time.Duration // of the limits of cold and hot keys
	algorithm  string        // of these; sliding_window unless given
	budget     time.Duration // what each call is given; 20 ms unless given
	rate       [2]int        // calls a second in the short form and the long one; 300 and 2,000 unless given
	short      time.Duration // how long the fault lasts in the short form,
	long       time.Duration // and in the long one
	beginsDown bool          // no server answers when weir starts

	throughEnvoy bool // in the short form, too, a real Envoy asks beside the load
	onlyHasty    bool // nobody waits for longer than the load does, so no Envoy with 200 ms asks in the long form

	starts  func(*testing.T) string // builds the weir that the replicas begin as, where it is not the one under test
	happens func(*scene)
	bounds  bounds

	alone func(*testing.T) (line string) // a row that is no fault under load: it judges itself
}

// bounds are what a row promises beyond what all of them do.
type bounds struct {
	states   int           // that a key may have had in a window: it is admitted at most its limit in each
	local    bool          // replicas may admit a share of their own besides
	forgets  bool          // servers may lose hits that were counted
	keys     float64       // the share of keys that may go without a store for a reason other than time; 1 unless given
	healthy  bool          // no answer may go without a store
	errors   bool          // calls may fail: policy error
	recovery time.Duration // until stores decide again, from the end of the fault, or its beginning if it does not end
	restarts bool          // replicas end and start again in it

	exact     float64 // the least share of calls that the store decides, of those that the machine did not hold up
	converges bool    // a window after the fault, a key is admitted no more than its limit again
	stepsBack bool    // the servers' clock does
	heard     bool    // each hit of a call that was answered comes into the history
	breaks    bool    // each replica says that a breaker is open
	policy    string  // that decides in place of a store; allow unless given
}

func (r *row) lasts() time.Duration { return form(r.short, r.long) }

// fill puts in what a row does not say.
func (r *row) fill() {
	if r.algorithm == "" {
		r.algorithm = "sliding_window"
	}
	if r.window == 0 {
		r.window = time.Minute
	}
	if r.budget == 0 {
		r.budget = 20 * time.Millisecond
	}
	if r.budget == patience { // then so has Redis
		r.settings = append(r.settings[:len(r.settings):len(r.settings)], fmt.Sprint("REDIS_TIMEOUT=", 3*patience))
	}
	if r.bounds.restarts {
		r.settings = append(r.settings, fmt.Sprint("DRAIN_DELAY=", drainDelay()))
	}
	if r.rate == [2]int{} {
		r.rate = [2]int{300, 2000}
	}
	if r.bounds.states == 0 {
		r.bounds.states = 1
	}
	if r.bounds.policy == "" {
		r.bounds.policy = "allow"
	}
	if r.bounds.keys == 0 {
		r.bounds.keys = 1
	}
}

// warm is how long all is well before a fault.
func warm() time.Duration { return form(700*time.Millisecond, 5*time.Second) }

// play runs a row and returns its line in the table.
func (r *row) play(t *testing.T) string {
	r.fill()
	if r.alone != nil {
		return r.alone(t)
	}
	s := &scene{T: t, row: r, record: &record{epoch: time.Now()}}
	s.start()
	s.stalls = watchStalls(t, s.record)
	s.load = startLoad(t, s.record, s.replicas, form(r.rate[0], r.rate[1]), r.budget)
	for _, e := range s.envoys {
		e.startLoad(t, form(30, 100))
	}
	if !r.beginsDown {
		time.Sleep(warm())
	}
	tell := func() {}
	if r.bounds.breaks {
		tell = s.watchBreakers()
	}
	r.happens(s)
	tell()
	s.recovered()
	s.load.stop()
	for _, e := range s.envoys {
		e.stop()
	}
	return s.judge()
}

// table collects the lines of rows that are played at the same time.
type table struct {
	mu    sync.Mutex
	lines map[int]string
}

// atOnce bounds how many rows are played at once, as -parallel does: each runs up to ten processes.
func atOnce() int { return form(3, 1) }

func TestWeirKeepsItsPromisesInEveryFault(t *testing.T) {
	began := time.Now()
	done := table{lines: make(map[int]string)}
	places := make(chan struct{}, atOnce())
	t.Run("rows", func(t *testing.T) {
		for i := range rows {
			r := rows[i]
			t.Run(strings.ReplaceAll(r.number+" "+r.fault, " ", "-"), func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				line := r.play(t)
				done.mu.Lock()
				defer done.mu.Unlock()
				done.lines[i] = fmt.Sprintf("%-3s %s: %s", r.number, r.fault, line)
			})
		}
	})
	for i := range rows {
		if line, played := done.lines[i]; played {
			t.Log(line)
		}
	}
	t.Logf("%d rows in %v; -seed %d", len(done.lines), time.Since(began).Round(time.Second), *seed)
}

// share tells how many of how many, in percent.
func share(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// counted lists how often each word came: the first ten in their order.
func counted(words map[string]int) string {
	var list []string
	for word, n := range words {
		list = append(list, fmt.Sprintf("%s %d", word, n))
	}
	slices.Sort(list)
	if len(list) > 10 {
		list = append(list[:10], "and others")
	}
	return strings.Join(list, ", ")
}
