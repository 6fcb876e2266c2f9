package faults_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

const (
	// slack is how much worse than its bound a time must be to fail a test.
	slack = 10
	// mayBeUnanswered is the share of calls, of those that the machine did not hold up, that may get no answer in time.
	mayBeUnanswered = 0.005
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
		s.judgeAnswers, s.judgeDegraded, s.judgeLate, s.judgeOver, s.judgeLocal, s.judgeDenied, s.judgeCounts, s.judgeMetrics,
		s.judgeRecovery, s.judgeEnvoys, s.judgeHistory, s.judgeLogs, s.judgeProcesses,
	} {
		if said := check(calls); said != "" {
			line = append(line, said)
		}
	}
	line = append(line, s.notes...)
	said := strings.Join(line, " · ")
	for _, wrong := range s.wrong {
		s.Errorf("row %s, %s: %s", s.row.number, s.row.fault, wrong)
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
		if c.verdict == failed {
			failures[portless.ReplaceAllString(c.failure, "")]++
		}
	}
	if sent := int(s.load.sent.Load()); sent != len(calls) {
		s.errorf("%d calls were sent and %d have ended", sent, len(calls))
	}
	if foreign > 0 {
		s.errorf("%d answers had the limit of another key than the caller's: they belong to someone else", foreign)
	}
	if n[failed] > 0 && !s.row.bounds.errors {
		s.errorf("%d calls failed, want none: policy allow answers them (%s)", n[failed], counted(failures))
	}
	return fmt.Sprintf("%d calls: %d ok, %d over, %d failed, %d unanswered", len(calls), n[ok], n[over], n[failed], n[unanswered])
}

// portless takes from errors what differs from one to the next.
var portless = regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?:? ?|rpc error: `)

// judgeDegraded wants that only those keys go without a store that the fault is about.
func (s *scene) judgeDegraded(calls []call) string {
	n, wrongly, strange, reasons, touched := 0, 0, 0, make(map[string]int), make(map[int]bool)
	asked := make(map[int]bool)
	for _, c := range calls {
		asked[c.key] = true
		if c.policy == "" {
			continue
		}
		n++
		if c.policy != s.row.bounds.policy || c.policy == "allow" && c.verdict != ok || c.policy == "deny" && c.verdict != over {
			strange++
		}
		reasons[c.policy+" "+c.reason]++
		if c.reason != "late" {
			touched[c.key] = true
			if s.elsewhere[c.key] && !s.stalls.lateOrAway(&c, s.row.budget) {
				wrongly++
			}
		}
		if s.row.bounds.healthy && !s.stalls.lateOrAway(&c, s.row.budget) {
			s.errorf("a call %v after the fault began was decided without a store (%s), and no server was away", c.begun-s.broke,
				c.reason)
		}
	}
	if got := share(len(touched), len(asked)); got > 100*s.row.bounds.keys {
		s.errorf("%.0f%% of the keys went without a store, want at most %.0f%%", got, 100*s.row.bounds.keys)
	}
	if strange > 0 {
		s.errorf("%d answers without a store are not what policy %s has for them", strange, s.row.bounds.policy)
	}
	if wrongly > 0 {
		s.errorf("%d answers went without a store for keys whose server is well", wrongly)
	}
	if n == 0 {
		return "none degraded"
	}
	return fmt.Sprintf("%d degraded (%s), %.0f of %.0f%% of keys", n, counted(reasons), share(len(touched), len(asked)),
		100*s.row.bounds.keys)
}

// judgeLate prints how long callers waited, and fails if far too many of those had no answer in time whom the machine
// did not hold up.
func (s *scene) judgeLate(calls []call) string {
	late, none, excused := 0, 0, 0
	inexact := 0
	for _, c := range calls {
		if c.begun >= s.broke && !c.exact() && !s.stalls.excuses(c.begun-longStall, c.ended, 0) {
			inexact++
		}
		isLate := c.took() > s.row.budget
		if !isLate && c.verdict != unanswered {
			continue
		}
		switch {
		case s.stalls.excuses(c.begun-longStall, c.ended, 0):
			excused++
		case c.verdict == unanswered:
			none++
		default:
			late++
		}
	}
	if bound := mayBeUnanswered * slack * float64(len(calls)); float64(none) > max(bound, 10) {
		s.errorf("%d of %d calls had no answer in their time while the machine was well, more than ten times the %.1f%% that may", none,
			len(calls), 100*mayBeUnanswered)
	}
	if least := s.row.bounds.exact; least > 0 {
		s.note("%.2f%% decided by the store, want %.1f%%", 100-share(inexact, len(calls)), 100*least)
		if got := share(inexact, len(calls)); *long && got > slack*100*(1-least) { // else other rows run beside it
			s.errorf("%.1f%% of the calls went without a store, ten times more than %.1f%%", got, 100*(1-least))
		}
	}
	stood, _ := s.stalls.sum()
	return fmt.Sprintf("%s of %v, %d late, %d without an answer, %d more as the machine stood for %s", s.waits(calls), s.row.budget, late,
		none, excused, brief(stood))
}

// waits tells how long callers waited: through the fault, in its first second, and those whose server was well.
func (s *scene) waits(calls []call) string {
	end := s.record.now()
	if s.healed > 0 {
		end = s.healed
	}
	through := between(calls, s.broke, end)
	said := fmt.Sprintf("p50 %s p99 %s, in the first second p99 %s,", brief(quantile(through, 0.5)), brief(quantile(through, 0.99)),
		brief(quantile(between(calls, s.broke, s.broke+time.Second), 0.99)))
	if len(s.elsewhere) > 0 {
		others := func(of []call) []call {
			return slices.DeleteFunc(slices.Clone(of), func(c call) bool { return !s.elsewhere[c.key] })
		}
		said += fmt.Sprintf(" of other servers' keys p99 %s and %s before,", brief(quantile(others(through), 0.99)),
			brief(quantile(others(between(calls, 0, s.broke)), 0.99)))
	}
	return said
}

// judgeMetrics compares what weir says it did with what its callers saw.
func (s *scene) judgeMetrics(calls []call) string {
	if s.row.bounds.restarts {
		return ""
	}
	answered, without, lost := 0, 0, 0
	for _, c := range calls {
		switch {
		case c.verdict == failed, c.verdict == unanswered:
			lost++
		case c.policy != "":
			without++
			answered++
		default:
			answered++
		}
	}
	var hits, degraded, decisions float64
	envoys := s.askedThroughEnvoy()
	for i, r := range s.replicas {
		m := r.mustScrape(s.T)
		for _, outcome := range []string{"within", "over", "degraded"} {
			label := fmt.Sprintf("outcome=%q", outcome)
			hits += m.sum("weir_hits_total", label) - s.atRest[i].sum("weir_hits_total", label)
		}
		degraded += m.sum("weir_hits_total", `outcome="degraded"`) - s.atRest[i].sum("weir_hits_total", `outcome="degraded"`)
		decisions += m.sum("weir_degraded_decisions_total", "") - s.atRest[i].sum("weir_degraded_decisions_total", "")
	}
	if int(hits) < answered || int(hits) > len(calls)+envoys {
		s.errorf("weir_hits_total has grown by %v, want %d (answered) to %d (all calls)", hits, answered, len(calls)+envoys)
	}
	if int(degraded) < without || int(degraded) > without+lost+envoys || degraded != decisions {
		s.errorf("%v hits are degraded in weir_hits_total and %v decisions in weir_degraded_decisions_total, want both alike and "+
			"%d to %d", degraded, decisions, without, without+lost+envoys)
	}
	return ""
}

// judgeRecovery prints how soon the stores decided again.
func (s *scene) judgeRecovery(calls []call) string {
	if s.row.bounds.recovery == 0 {
		return ""
	}
	took := lastTrouble(calls, s.mark(), s.stalls.late) - s.mark()
	// A machine that stands still again and again makes weir think again and again that a server is away.
	held := func(c *call) bool { return s.stalls.lateOrAway(c, s.row.budget) }
	if sure := lastTrouble(calls, s.mark(), held) - s.mark(); sure > slack*s.row.bounds.recovery {
		s.errorf("the stores did not decide again %v after the fault, ten times %v", sure, s.row.bounds.recovery)
	}
	return fmt.Sprintf("back after %s of %v", brief(took), s.row.bounds.recovery)
}

// judgeProcesses wants that no weir has ended, and that each holds about what it held before.
func (s *scene) judgeProcesses([]call) string {
	most, memory, soonest := 0.0, 0.0, time.Duration(0)
	for i, r := range s.replicas {
		if err := r.Ended(); err != nil {
			s.errorf("%v, and must not", err)
			continue
		}
		before := s.atRest[i]["go_goroutines"]
		took := redistest.Eventually(s.T, "goroutines are as before", func() error {
			m, err := r.scrape()
			if err != nil {
				return err
			}
			if more := m["go_goroutines"] - before; more > moreGoroutines && !s.row.bounds.restarts {
				return fmt.Errorf("%v more than the %v at rest", more, before)
			}
			most = max(most, m["go_goroutines"]-before)
			memory = max(memory, m["process_resident_memory_bytes"])
			return nil
		})
		soonest = max(soonest, took)
	}
	if memory > memoryCap {
		s.errorf("a weir holds %.0f MB, at most %d are allowed", memory/1e6, int(memoryCap/1e6))
	}
	return fmt.Sprintf("goroutines %+.0f of %d after %s of 5s · RSS %.0f of %.0f MB", most, moreGoroutines, brief(soonest),
		memory/1e6, memoryCap/1e6)
}

// brief rounds a time to what is worth reading.
func brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// transitions is how many lines more a log may have that tell once of a beginning or an end: of servers, of what can
// count, of the history.
const transitions = 8

// judgeLogs wants that an outage fills nobody's disk: a line a second and server at most.
func (s *scene) judgeLogs([]call) string {
	if s.row.bounds.restarts {
		return ""
	}
	most := 0
	bound := max(1, len(s.servers))*int(s.record.now().Seconds()) + transitions
	for i, r := range s.replicas {
		lines := strings.Count(r.Log.String(), "\n") - s.said[i]
		most = max(most, lines)
		if lines > bound {
			s.errorf("replica %d logged %d lines, at most %d are allowed: one a second and server", i, lines, bound)
		}
	}
	return fmt.Sprintf("%d log lines of %d", most, bound)
}
