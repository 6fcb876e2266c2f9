package faults_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

const (
	// slack is how many times as many calls as come in the time that a row promises it may take until it is well.
	slack = 10
	// moreGoroutines is how many more than at rest before may be there a while after the load.
	moreGoroutines = 5
)

// memoryCap bounds the resident memory of a weir, in bytes. The race detector, with which make test-all builds it, needs
// several times what weir does.
const memoryCap = 900e6

// judge compares what happened with what every row promises, and with the row's bounds. It returns the row's line.
func (s *scene) judge() string {
	calls := s.record.all()
	var line []string
	for _, check := range []func([]call) string{
		s.judgeAnswers, s.judgeDegraded, s.judgeInTime, s.judgeOver, s.judgeLocal, s.judgeDenied, s.judgeCounts,
		s.judgeMetrics, s.judgeHistory, s.judgeLogs, s.judgeProcesses,
	} {
		if said := check(calls); said != "" {
			line = append(line, said)
		}
	}
	line = append(line, s.notes...)
	said := strings.Join(line, " · ")
	for _, wrong := range s.violations {
		s.Errorf("row %s, %s, -seed %d: %s", s.row.number, s.row.fault, *seed, wrong)
		said += " · FAILED: " + wrong
	}
	return said
}

// judgeAnswers wants one end of each call, and the limit of the caller's own key in each answer.
func (s *scene) judgeAnswers(calls []call) string {
	var n [verdicts]int
	foreign, failures := 0, make(map[string]int)
	for _, c := range calls {
		n[c.verdict]++
		if c.limit != 0 && c.limit != allKeys[c.key].limit {
			foreign++
		}
		if c.verdict == failed && c.policy == "" {
			failures[portless.ReplaceAllString(c.failure, "")]++
		}
	}
	if sent := int(s.load.sent.Load()); sent != len(calls) {
		s.errorf("%d calls were sent and %d have ended", sent, len(calls))
	}
	if foreign > 0 {
		s.errorf("%d answers had the limit of another key than the caller's: they belong to someone else", foreign)
	}
	if len(failures) > 0 {
		s.errorf("calls failed that no policy let fail: %s", counted(failures))
	}
	return fmt.Sprintf("%d calls: %d ok, %d over, %d failed, %d unanswered", len(calls), n[ok], n[over], n[failed], n[unanswered])
}

// portless takes from errors what differs from one to the next.
var portless = regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?:? ?|rpc error: `)

// judgeDegraded wants that only those keys go without a store that the fault is about, and that then each gets what its
// policy says.
func (s *scene) judgeDegraded(calls []call) string {
	n, wrongly, strange, by, reasons := 0, 0, 0, make(map[string]int), make(map[string]int)
	verdictsOf := map[string][]verdict{"allow": {ok}, "deny": {over}, "local": {ok, over}, "error": {failed}}
	for _, c := range calls {
		if c.policy == "" {
			continue
		}
		n++
		by[c.policy]++
		reasons[cmp.Or(c.reason, "untold")]++
		if policy := allKeys[c.key].policy; c.policy != policy || !slices.Contains(verdictsOf[policy], c.verdict) {
			strange++
		}
		if s.stalls.lateOrAway(&c, s.row.budget) {
			continue
		}
		if s.row.bounds.rollout {
			s.errorf("a call %v after the fault began was decided without a store (%s), and no server was away", c.begun-s.broke,
				c.reason)
		}
		if c.reason != "late" && c.reason != "" && s.elsewhere[allKeys[c.key].suffix()] {
			wrongly++
		}
	}
	if strange > 0 {
		s.errorf("%d answers without a store are not what the policies of their rules have for them", strange)
	}
	if wrongly > 0 {
		s.errorf("%d answers went without a store for keys whose server is well", wrongly)
	}
	if s.row.bounds.rollout {
		return ""
	}
	for _, policy := range policies {
		if s.row.bounds.gone && by[policy] == 0 {
			s.errorf("no call was decided by policy %s: the fault proves nothing of it", policy)
		}
	}
	return fmt.Sprintf("%d degraded (%s; %s)", n, counted(by), counted(reasons))
}

// judgeInTime wants that callers have an answer before they must leave: of the calls during the fault that the machine
// did not hold up, more had one than had none.
func (s *scene) judgeInTime(calls []call) string {
	through := since(calls, s.broke)
	if s.healed > 0 {
		through = through[:len(through)-len(since(through, s.healed))]
	}
	opened := slices.IndexFunc(through, func(c call) bool { return c.reason == "down" })
	if s.row.bounds.breaks && opened >= 0 {
		s.note("a breaker opened after %v, %d calls", (through[opened].begun - s.broke).Round(time.Millisecond), opened)
	}
	answered, stored, none, excused := 0, 0, 0, 0
	for i := range through {
		c := &through[i]
		if c.exact() {
			stored++
		}
		switch {
		case s.stalls.excuses(c.begun-longStall, c.ended, 0):
			excused++
		case c.verdict == unanswered:
			none++
		default:
			answered++
		}
	}
	if none > answered+10 { // a few say nothing
		s.errorf("during the fault %d calls had no answer before their deadline and %d had one, while the machine was well: "+
			"nobody may wait for a Redis that gives no answer", none, answered)
	}
	return fmt.Sprintf("%.1f%% decided by a store, %d without an answer, %d more as the machine stood",
		share(stored, len(through)), none, excused)
}

// judgeMetrics compares what weir says it did with what its callers saw.
func (s *scene) judgeMetrics(calls []call) string {
	if s.row.bounds.rollout {
		return ""
	}
	answered, without, lost := 0, 0, 0
	for _, c := range calls {
		switch {
		case c.policy != "":
			without++
			answered++
		case c.exact():
			answered++
		default:
			lost++
		}
	}
	var hits, degraded, decisions float64
	for i, r := range s.replicas {
		m := r.mustScrape(s.T)
		grown := func(name, label string) float64 { return m.Sum(name, label) - s.atRest[i].Sum(name, label) }
		byPolicy := grown("weir_hits_total", `outcome="degraded"`)
		hits += grown("weir_hits_total", "")
		degraded, decisions = degraded+byPolicy, decisions+grown("weir_degraded_total", "")
	}
	if int(hits) < answered || int(hits) > len(calls) {
		s.errorf("weir_hits_total has grown by %v, want %d (answered) to %d (all calls)", hits, answered, len(calls))
	}
	if int(degraded) < without || int(degraded) > without+lost || degraded != decisions {
		s.errorf("%v hits are degraded in weir_hits_total and %v decisions in weir_degraded_total, want both alike and "+
			"%d to %d", degraded, decisions, without, without+lost)
	}
	return ""
}

// judgeProcesses wants that no weir has ended, and that each holds about what it held before.
func (s *scene) judgeProcesses([]call) string {
	memory := 0.0
	for i, r := range s.replicas {
		if err := r.Ended(); err != nil {
			s.errorf("%v, and must not", err)
			continue
		}
		before := s.atRest[i]["go_goroutines"]
		process.Eventually(s.T, "goroutines are as before", func() error {
			m, err := r.Scrape()
			if err != nil {
				return err
			}
			memory = max(memory, m["process_resident_memory_bytes"])
			if more := m["go_goroutines"] - before; more > moreGoroutines && !s.row.bounds.rollout {
				return fmt.Errorf("%v more than the %v at rest", more, before)
			}
			return nil
		})
	}
	if memory > memoryCap {
		s.errorf("a weir holds %.0f MB, at most %d are allowed", memory/1e6, int(memoryCap/1e6))
	}
	return fmt.Sprintf("RSS %.0f of %.0f MB", memory/1e6, memoryCap/1e6)
}

// transitions is how many lines more a log may have that tell once of a beginning or an end: of servers, of what can
// count, of the history.
const transitions = 8

// judgeLogs wants that an outage fills nobody's disk: a line a second and server at most.
func (s *scene) judgeLogs([]call) string {
	if s.row.bounds.rollout {
		return ""
	}
	bound := max(1, len(s.servers))*int(s.record.now().Seconds()) + transitions
	for i, r := range s.replicas {
		if lines := strings.Count(r.Log.String(), "\n") - s.logged[i]; lines > bound {
			s.errorf("replica %d logged %d lines, at most %d are allowed: one a second and server", i, lines, bound)
		}
	}
	return ""
}

// judgeHistory wants each hit of an answered call in the history, once.
func (s *scene) judgeHistory(calls []call) string {
	if !s.row.bounds.rollout {
		return ""
	}
	answered, most := uint64(0), uint64(len(calls))
	for _, c := range calls {
		if c.verdict <= over {
			answered++
		}
	}
	var held uint64
	process.Eventually(s.T, "all hits are in the history", func() error {
		hits, err := s.replicas[0].Lifetimes()
		held = hits["within"] + hits["over"] + hits["degraded"]
		if err == nil && held < answered {
			err = fmt.Errorf("it has %d of %d", held, answered)
		}
		return err
	})
	if held > most {
		s.errorf("the history has %d hits of %d calls: some came twice", held, most)
	}
	s.verifies(process.Weir(s.T))
	return fmt.Sprintf("%d hits in the history of %d", held, answered)
}

// verifies wants weir history verify, of a binary, to find that each series holds what it counted.
func (s *scene) verifies(binary string) {
	s.Helper()
	if printed, code := process.Command(s.T, []string{"REDIS_URL=" + s.urls[0]}, binary, "history", "verify"); code != 0 {
		s.errorf("weir history verify ended with %d, want 0:\n%s", code, printed)
	}
}
