package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// scene is what a row is played on: servers, replicas of weir on them, the load, and what happened when.
type scene struct {
	*testing.T
	row      *row
	servers  []*redistest.Server     // that count
	proxies  []*redistest.FaultProxy // one before each replica, where the row has them
	cluster  *redistest.ClusterSet
	urls     []string // REDIS_URL of each replica; the last one holds for those beyond
	settings []string // of all replicas

	replicas []*replica
	record   *record
	load     *load
	blind    [replicas]atomic.Bool // which may have lost sight of the other: their share is then the whole limit
	stalls   *stalls
	atRest   []weirtest.Metrics // of each replica, before the load
	logged   []int              // lines of each by then

	before     string        // the path of the release before, in the row that has it
	drainDelay time.Duration // of each replica
	starved    string        // why the row says nothing, as the machine stood still; "" if it did not

	broke, healed time.Duration   // in the record's time; zero if it did not happen
	elsewhere     map[string]bool // suffixes of keys whose server is well all the time, where the row knows it
	notes         []string        // what the row has measured besides
	violations    []string        // what was not as it had to be
}

// topology starts the servers of a scene.
type topology func(*scene)

const replicas = 2

// The topologies of the table.
var (
	single topology = func(s *scene) { s.on(redistest.Single(s.T)) }

	// proxied puts a proxy of its own before the server for each replica.
	proxied topology = func(s *scene) {
		s.on(redistest.Single(s.T))
		s.urls = nil
		for range replicas {
			p := redistest.Proxy(s.T, s.servers[0].Addr)
			s.proxies, s.urls = append(s.proxies, p), append(s.urls, p.Addr)
		}
	}

	// downAtFirst is a server that does not answer when weir starts.
	downAtFirst topology = func(s *scene) {
		single(s)
		s.servers[0].Kill()
	}

	ring topology = func(s *scene) {
		s.on(redistest.Ring(s.T, 3)...)
		s.settings = append(s.settings, "REDIS_TYPE=ring")
	}

	cluster topology = func(s *scene) {
		// Without the second line, all nodes refuse everything while one primary has no successor.
		s.cluster = redistest.Cluster(s.T,
			redistest.WithConfig("cluster-node-timeout 1000", "cluster-require-full-coverage no"))
		s.servers = s.cluster.Nodes
		s.urls = []string{strings.Join(s.cluster.Addrs(), ",")}
		s.settings = append(s.settings, "REDIS_TYPE=cluster")
	}
)

// on adds servers that replicas are given the addresses of.
func (s *scene) on(servers ...*redistest.Server) {
	s.servers = append(s.servers, servers...)
	var addrs []string
	for _, server := range s.servers {
		addrs = append(addrs, server.Addr)
	}
	s.urls = []string{strings.Join(addrs, ",")}
}

// start brings up servers and replicas and waits until each replica counts, unless the row begins without a server.
func (s *scene) start() {
	s.row.on(s)
	if s.row.budget == clientTimeout { // then so has Redis
		s.settings = append(s.settings, fmt.Sprint("REDIS_TIMEOUT=", 3*clientTimeout))
	}
	if s.row.beginsDown { // who has not reached Redis can be told of the others in no other way
		s.settings = append(s.settings, fmt.Sprint("REPLICAS=", replicas))
	}
	for i := range replicas {
		settings := append([]string{"REDIS_URL=" + s.urls[min(i, len(s.urls)-1)], fmt.Sprint("DRAIN_DELAY=", s.drainDelay),
			fmt.Sprint("LEASES=", i == 0)}, // one leases, the others ask about each hit
			s.settings...)
		s.replicas = append(s.replicas, startReplica(s.T, rules(s.row.window), settings...))
	}
	if !s.row.beginsDown {
		s.awaitCounting()
	}
	for _, r := range s.replicas {
		s.atRest = append(s.atRest, r.mustScrape(s.T))
		s.logged = append(s.logged, strings.Count(r.Log.String(), "\n"))
	}
}

// awaitCounting waits until each replica has an answer from a store for some keys, on all servers, and knows of the
// others, whose number is what policy local divides by.
func (s *scene) awaitCounting() {
	s.Helper()
	for _, r := range s.replicas {
		for user := range 10 {
			look := func() error { return r.look(fmt.Sprint(user), s.row.budget) }
			process.Eventually(s.T, "a replica counts", look)
		}
		process.Eventually(s.T, "a replica knows of the others", func() error {
			m, err := r.Scrape()
			if err == nil && m["weir_replicas"] != replicas {
				err = fmt.Errorf("it knows of %v replicas, want %d", m["weir_replicas"], replicas)
			}
			return err
		})
	}
}

// look asks a replica without counting, and returns an error unless a store answered. Its budget is that of the calls
// that follow: weir remembers for a while how long its callers wait.
func (r *replica) look(user string, budget time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	question := request(countPlan("allow"), user)
	question.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	answer, err := r.client.ShouldRateLimit(ctx, question)
	if err != nil {
		return err
	}
	if policy, reason := degraded(answer); policy != "" {
		return fmt.Errorf("policy %s decided: %s", policy, reason)
	}
	return nil
}

// breaks notes that the fault begins now.
func (s *scene) breaks() { s.broke = s.record.now() }

// heals notes that the fault has ended now.
func (s *scene) heals() { s.healed = s.record.now() }

// hold lets the fault last as long as the row says, and until each replica has found out, where it is to.
func (s *scene) hold() {
	time.Sleep(s.row.lasts())
	for i, r := range s.replicas {
		if !s.row.bounds.breaks {
			return
		}
		process.Eventually(s.T, "a breaker opens while Redis gives no answer", func() error {
			m, err := r.Scrape()
			if err == nil && m.Sum("weir_redis_breaker_open", "") == 0 {
				err = fmt.Errorf("weir_redis_breaker_open of replica %d is 0", i)
			}
			return err
		})
	}
}

// note adds a measurement to the row's line.
func (s *scene) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// errorf adds what was not as it had to be.
func (s *scene) errorf(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// patience is how long a machine that holds up nearly all calls may keep a row from telling when the stores are back.
const patience = 30 * time.Second

// recovered waits until the stores have decided for a while. It gives weir as many calls as come in ten times the
// time that the row promises; those that the machine held up do not count. If it holds up nearly all, as one does that
// has less than a core for the row, a decision of the stores is all there is to see.
func (s *scene) recovered() {
	quiet := usualOrLong(500*time.Millisecond, 5*time.Second)
	most := slack * int(s.row.bounds.recovery.Seconds()*float64(rate()))
	for ; ; time.Sleep(quiet / 5) {
		calls := since(s.record.all(), s.recoversFrom())
		last, inVain := s.stalls.lastTrouble(calls, s.recoversFrom())
		switch {
		case len(calls) > 0 && calls[len(calls)-1].begun-last > quiet:
			s.note("back after %v of %v", (last - s.recoversFrom()).Round(10*time.Millisecond), s.row.bounds.recovery)
			return
		case !s.row.bounds.rollout && inVain > most:
			s.errorf("the stores do not decide again, %d calls after the fault: a Redis that is back must be asked", inVain)
			return
		case s.record.now()-s.recoversFrom() > patience && slices.ContainsFunc(calls, func(c call) bool { return c.exact() }):
			s.note("back, but when is not told: the machine held up all but %d of %d calls", inVain, len(calls))
			return
		case s.record.now()-s.recoversFrom() > process.Hang:
			s.Fatalf("starved: in %v the machine let weir answer only %d calls", process.Hang, inVain)
		}
	}
}

// betweenAnnouncements is the least time between two announcements of a replica: it knows for as long what one has told it.
const betweenAnnouncements = 4 * time.Second

// followReplicas notes as long as the load lasts which replica forgets the other, as it does when it has not heard of it
// for 15 seconds. One that did not say in time what it knows may have.
func (s *scene) followReplicas() {
	for i, r := range s.replicas {
		s.load.running.Go(func() {
			for last, enough := time.Now(), false; !enough; {
				select {
				case <-s.load.leave:
					enough = true
				case <-time.After(betweenAnnouncements / 8):
				}
				asked := time.Now()
				m, err := r.Scrape()
				if err == nil && m["weir_replicas"] < replicas || time.Since(last) > betweenAnnouncements {
					s.blind[i].Store(true)
				}
				if err == nil {
					last = asked
				}
			}
		})
	}
}

// recoversFrom is the instant from which recovery is told: when the fault has ended or, where nobody ends it, has begun.
func (s *scene) recoversFrom() time.Duration {
	if s.healed > 0 {
		return s.healed
	}
	return s.broke
}

// must ends the row's test at an error of its own means.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// replica is a weir serve. It keeps its ports, its configuration and its data when it is started again.
type replica struct {
	*weirtest.Weir
	client   *weirtest.Client
	out      atomic.Bool  // clients leave it out
	underWay atomic.Int64 // calls that have not ended
	answered atomic.Int64 // calls that have
}

// startReplica serves rules of domain shop, and waits until it answers. Settings are NAME=value; a later one wins.
func startReplica(t testing.TB, rules string, settings ...string) *replica {
	t.Helper()
	w := weirtest.Serve(t, rules, append([]string{
		"HISTORY_FLUSH_INTERVAL=1s",
		"DENIAL_LOG_INTERVAL=0", // what is logged of denials has a bound of its own
		"ON_BACKEND_FAILURE=" + defaultPolicy,
	}, settings...)...)
	return &replica{Weir: w, client: w.Client(t)}
}

// mustScrape is Scrape for a weir that is well.
func (r *replica) mustScrape(t *testing.T) weirtest.Metrics {
	t.Helper()
	m, err := r.Scrape()
	if err != nil {
		t.Fatalf("reading the metrics of weir: %v", err)
	}
	return m
}
