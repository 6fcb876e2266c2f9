package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

// verifies wants weir history verify, of a binary, to find that each series holds what it counted.
func (s *scene) verifies(binary string) {
	s.Helper()
	if said, code := runWeir(s.T, binary, s.urls[0], "history", "verify"); code != 0 {
		s.errorf("weir history verify ended with %d, want 0:\n%s", code, said)
	}
}

// runWeir runs a command of weir on a Redis to its end.
func runWeir(t *testing.T, binary, redisURL string, args ...string) (said string, code int) {
	t.Helper()
	p := process.Start(t, "weir "+strings.Join(args, " "), []string{"REDIS_URL=" + redisURL}, binary, args...)
	code = p.ExitCode(t)
	return p.Log.String(), code
}

// judgeHistory wants each hit of an answered call in the history, once.
func (s *scene) judgeHistory(calls []call) string {
	if !s.row.bounds.heard {
		return ""
	}
	answered := uint64(0)
	for _, c := range calls {
		if c.verdict <= over {
			answered++
		}
	}
	envoys, passed := uint64(s.askedThroughEnvoy()), uint64(0)
	for _, e := range s.envoys {
		passed += uint64(e.answers[http.StatusOK])
	}
	var held uint64
	took := redistest.Eventually(s.T, "all hits are in the history", func() (err error) {
		held, err = s.replicas[0].lifetimes()
		if err == nil && held < answered+passed {
			err = fmt.Errorf("it has %d of %d", held, answered+passed)
		}
		return err
	})
	if most := uint64(len(calls)) + envoys; held > most {
		s.errorf("the history has %d hits of %d calls: some came twice", held, most)
	}
	s.verifies(weirBinary)
	return fmt.Sprintf("%d hits in the history of %d, after %s", held, answered+passed, brief(took))
}

// lifetimes returns how many hits the history has in all.
func (r *replica) lifetimes() (sum uint64, err error) {
	var shown struct {
		Series []struct {
			Outcome  string
			Lifetime uint64
		}
	}
	if err := getJSON(r.admin+"/api/v1/history?domain=shop&points=1", &shown); err != nil {
		return 0, err
	}
	for _, series := range shown.Series {
		if series.Outcome == "within" || series.Outcome == "over" || series.Outcome == "degraded" {
			sum += series.Lifetime
		}
	}
	return sum, nil
}

// archive puts hits of bygone days into a history, and knows what it holds.
type archive struct {
	store  *redishistory.Store
	totals map[history.ID]uint64
	writer int
}

// openArchive opens the history of a Redis.
func openArchive(t *testing.T, url string) *archive {
	t.Helper()
	store, err := redishistory.Open(redishistory.Config{
		Redis: redis.Config{Type: redis.Single, URL: url, Timeout: patience, Log: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &archive{store: store, totals: make(map[history.ID]uint64)}
}

// add puts minutes of three days ago and more into some series: work for downsamplers.
func (a *archive) add(t *testing.T, draw *rand.Rand) {
	t.Helper()
	now := time.Now().Unix() / 60
	for n := range 20 {
		a.writer++
		id := history.ID{Domain: "shop", Path: fmt.Sprint("archive/", n), Outcome: history.Within}
		b := history.Batch{Writer: fmt.Sprint("archive-", a.writer), Seq: 1}
		first := now - 3*24*60 - int64(draw.IntN(40*24*60))
		for i := range history.MaxBatch {
			hits := uint64(1 + draw.IntN(100))
			b.Increments = append(b.Increments, history.Increment{ID: id, Minute: first + int64(i)*7, Hits: hits})
			a.totals[id] += hits
		}
		if _, err := a.store.Apply(context.Background(), id.Partition(), b); err != nil {
			t.Fatalf("writing an archive: %v", err)
		}
	}
}

// exact wants each series to hold what was put in, in its tiers and in all.
func (a *archive) exact(t *testing.T) {
	t.Helper()
	seen := 0
	err := a.store.Query(context.Background(), history.Query{To: time.Now().Unix() + 3600}, func(s history.Series) error {
		want, mine := a.totals[s.ID]
		if !mine {
			return nil
		}
		seen++
		if s.Lifetime != want {
			t.Errorf("row 22: %v has %d hits, want %d: kills must neither lose one nor move one twice", s.ID, s.Lifetime, want)
		}
		return nil
	})
	if err != nil || seen != len(a.totals) {
		t.Errorf("row 22: %d of %d series could be read (%v)", seen, len(a.totals), err)
	}
}

// killDownsamplers ends weir serve and pairs of weir downsample --once by kill -9 at any instant of their work, and
// wants the history to be exact each time.
func killDownsamplers(t *testing.T) string {
	rounds := form(3, 60)
	draw := rand.New(rand.NewPCG(*seed, 22))
	url := redistest.Single(t).Addr
	a := openArchive(t, url)
	r := startReplica(t, rules(time.Minute, "sliding_window"), "REDIS_URL="+url)
	a.add(t, draw)
	began := time.Now()
	if said, code := runWeir(t, weirBinary, url, "downsample", "--once"); code != 0 {
		t.Fatalf("row 22: weir downsample --once ended with %d:\n%s", code, said)
	}
	whole := time.Since(began)
	kills := 0
	for range rounds {
		a.add(t, draw)
		for _, user := range []string{"0", "1", "2"} {
			r.patiently(t, request("shop", countPlan, user))
		}
		var pair []*process.Process
		for range 2 {
			env := []string{"REDIS_URL=" + url}
			pair = append(pair, process.Start(t, "weir downsample", env, weirBinary, "downsample", "--once"))
		}
		for _, p := range pair {
			time.Sleep(time.Duration(draw.Int64N(int64(whole))))
			if p.Ended() == nil {
				kills++
			}
			p.Kill()
		}
		r.Kill()
		kills++
		r.start(t, weirBinary)
		redistest.Eventually(t, "a weir that was killed counts again", func() error { return r.look(countPlan, "0", patience) })
		if said, code := runWeir(t, weirBinary, url, "history", "verify"); code != 0 {
			t.Errorf("row 22: after a kill weir history verify ended with %d, want 0:\n%s", code, said)
		}
	}
	last, code := runWeir(t, weirBinary, url, "downsample", "--once")
	if code != 0 {
		t.Errorf("row 22: the last weir downsample --once ended with %d:\n%s", code, last)
	}
	again, code := runWeir(t, weirBinary, url, "downsample", "--once")
	if code != 0 || !strings.Contains(again, "moved 0 series") {
		t.Errorf("row 22: run again, weir downsample --once ended with %d, want 0 and nothing to do:\n%s", code, again)
	}
	a.exact(t)
	_, line, _ := strings.Cut(last, "Looked at")
	line, _, _ = strings.Cut(line, "\n")
	return fmt.Sprintf("%d kills in %d rounds of two downsamplers and a weir · %d series exact to the integer · "+
		"the last run looked at%s · run again: 0 moved", kills, rounds, len(a.totals), line)
}
