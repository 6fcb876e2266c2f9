package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

// historyRules are one rule that nobody reaches the limit of.
const historyRules = `
- key: plan
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000000000 }
`

// historyID is the series of that rule.
var historyID = history.ID{Domain: "shop", Path: "plan/user", Outcome: history.Within}

// curve is what GET /api/v1/history answers, as far as these tests look at it.
type curve struct {
	Error  string
	Series []struct {
		Path, Outcome string
		Lifetime      uint64
		Points        []struct {
			Sum   uint64
			Width int64
			Tier  string
		}
	}
}

// history asks weir for all that it keeps, as it is stored.
func (w *weir) history() (c curve, err error) {
	answer, err := patient.Get(w.admin + "/api/v1/history?from=0&domain=shop")
	if err != nil {
		return c, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(body, &c)
}

// fill brings hits to a store that is not served: some of each of the past minutes.
func fill(t *testing.T, store history.Store, minutes int64) (hits uint64) {
	t.Helper()
	p, now := historyID.Partition(), time.Now().Unix()/60
	for at, seq := int64(1), uint64(1); at <= minutes; seq++ {
		b := history.Batch{Writer: "filled", Seq: seq, After: seq - 1}
		for ; at <= minutes && len(b.Increments) < history.MaxBatch; at++ {
			b.Increments = append(b.Increments, history.Increment{ID: historyID, Minute: now - at, Hits: uint64(at)})
			hits += uint64(at)
		}
		if r, err := store.Apply(t.Context(), p, b); err != nil || r.Landing != history.Landed {
			t.Fatalf("filling a history: %+v, %v", r, err)
		}
	}
	return hits
}

// openSeries opens a history in Redis beside weir.
func openSeries(t *testing.T, c redis.Config) *redishistory.Store {
	t.Helper()
	c.Timeout = 10 * time.Second
	store, err := redishistory.Open(redishistory.Config{Redis: c})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// expectHits asks weir for so many hits and wants each to pass.
func expectHits(t *testing.T, w *weir, n int) {
	t.Helper()
	c := w.client(t)
	for range n {
		if s, err := c.hit("basic", "ann"); err != nil || s.Code.String() != "OK" {
			t.Fatalf("a request is answered %v (%v), want OK: whatever the history does, the limiter is unharmed", s, err)
		}
	}
}

// expectLifetime wants the history to hold so many hits of the rule, exactly, within some flushes.
func expectLifetime(t *testing.T, w *weir, want uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("the history holds %d hits", want), func() error {
		c, err := w.history()
		if err != nil || c.Error != "" || len(c.Series) != 1 || c.Series[0].Lifetime != want {
			return fmt.Errorf("it answers %+.300v, %v", c, err)
		}
		var sum uint64
		for _, p := range c.Series[0].Points {
			sum += p.Sum
		}
		if sum != want {
			t.Errorf("points make %d of %d hits", sum, want)
		}
		return nil
	})
}

// drain ends weir as Kubernetes does, and wants it to end well.
func (w *weir) drain(t *testing.T) {
	t.Helper()
	w.Terminate(t)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("weir ended with exit code %d after its drain, want 0", code)
	}
}

// says wants weir to have logged something.
func (w *weir) says(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("weir logs %q", want), func() error {
		log := w.Log.String()
		for _, text := range want {
			if !strings.Contains(log, text) {
				return fmt.Errorf("%q is missing", text)
			}
		}
		return nil
	})
}

// command runs another command of weir, in an environment.
func command(t *testing.T, env []string, args ...string) (printed string, code int) {
	t.Helper()
	p := process.Start(t, "weir "+strings.Join(args, " "), env, weirBinary, args...)
	code = p.ExitCode(t)
	return p.Log.String(), code
}

func TestASeriesThatIsTooLongShrinksWithoutAJobAndStaysExact(t *testing.T) {
	t.Parallel()
	const limit, minutes, hits = 100, 900, 7
	quick := []string{fmt.Sprint("HISTORY_MAX_POINTS=", limit), "HISTORY_DOWNSAMPLE=false", "HISTORY_FLUSH_INTERVAL=1s",
		"DRAIN_DELAY=0s"}
	server := redistest.Single(t)
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		open  func() (history.Store, func() error)
		where string
	}{
		{"file", func() (history.Store, func() error) {
			s, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep()})
			if err != nil {
				t.Fatal(err)
			}
			return s, s.Close
		}, "DATA_DIR=" + dir},
		{"redis", func() (history.Store, func() error) {
			s := openSeries(t, redis.Config{URL: server.Addr})
			return s, s.Close
		}, "REDIS_URL=" + server.Addr},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, end := c.open()
			filled := fill(t, store, minutes)
			if err := end(); err != nil {
				t.Fatal(err)
			}
			w := startWeir(t, historyRules, append(quick, c.where, "REDIS_TIMEOUT=5s")...)
			expectHits(t, w, hits)
			expectLifetime(t, w, filled+hits)
			is, err := w.history()
			if err != nil {
				t.Fatal(err)
			}
			fine := map[string]int{}
			for _, p := range is.Series[0].Points {
				fine[p.Tier]++
			}
			if n := len(is.Series[0].Points) - fine["1d"]; n > limit {
				t.Errorf("with HISTORY_MAX_POINTS=%d and no job a series holds %v, %d finer than a day: it would grow for ever",
					limit, fine, n)
			}
			printed, code := command(t, []string{"HOME=/"}, "history", "verify", "--admin", strings.TrimPrefix(w.admin, "http://"))
			if code != 0 {
				t.Errorf("weir history verify ends with %d and says %s", code, printed)
			}
			t.Logf("%d points of a minute became %v; %s", minutes, fine, strings.TrimSpace(printed))
			w.drain(t)
		})
	}
}

// A job takes no clock for later than the server's.
func TestAJobWhoseClockIsAYearAheadMovesNothingThatIsNotOld(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	store := openSeries(t, redis.Config{URL: server.Addr})
	defer store.Close()
	want := fill(t, store, 600)
	did, err := store.Roll(t.Context(), history.Job{Now: time.Now().AddDate(1, 0, 0)})
	if err != nil || did.Chunks != ([history.Tiers]uint64{}) {
		t.Errorf("a job that thinks it is next year did %+v, %v: ten hours of minutes are to stay as they are", did, err)
	}
	err = store.Query(context.Background(), history.Query{To: history.Always().To}, func(s history.Series) error {
		if s.Lifetime != want || len(s.Points) != 600 {
			t.Errorf("%+v holds %d hits in %d points, want %d in 600", s.ID, s.Lifetime, len(s.Points), want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
