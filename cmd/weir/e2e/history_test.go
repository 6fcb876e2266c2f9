package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

var tenAnHour = weirtest.Rule("basic/1", "unit: hour, requests_per_unit: 10")

// largeID is the series of largePlan's rule.
var largeID = history.ID{Domain: "shop", Path: "plan=large/user", Outcome: history.Within}

// curve is what GET /api/v1/history answers, as far as these tests look at it.
type curve struct {
	Error  string
	Series []struct {
		Path, Outcome string
		Lifetime      uint64
		Points        []struct {
			Sum  uint64
			Tier string
		}
	}
}

// kept asks weir for all that it keeps, as it is stored.
func kept(w *weirtest.Weir) (c curve, err error) {
	text, _, err := weirtest.Fetch(w.Admin + "/api/v1/history?from=0&domain=shop")
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(text), &c)
}

// fill brings hits to a store that is not served, and closes it: some of each of the past minutes.
func fill(t *testing.T, store interface {
	history.Store
	Close() error
}, minutes int64) (hits uint64) {
	t.Helper()
	p, now := largeID.Partition(), time.Now().Unix()/60
	for at, seq := int64(1), uint64(1); at <= minutes; seq++ {
		b := history.Batch{Writer: "filled", Seq: seq, After: seq - 1}
		for ; at <= minutes && len(b.Increments) < history.MaxBatch; at++ {
			b.Increments = append(b.Increments, history.Increment{ID: largeID, Minute: now - at, Hits: uint64(at)})
			hits += uint64(at)
		}
		if r, err := store.Apply(t.Context(), p, b); err != nil || r.Status != history.Applied {
			t.Fatalf("filling a history: %+v, %v", r, err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return hits
}

// expectHits asks weir for so many hits and wants each to pass.
func expectHits(t *testing.T, w *weirtest.Weir, n int) {
	t.Helper()
	c := w.Client(t)
	for range n {
		if s, err := c.Hit("large", "ann"); err != nil || s.Code.String() != "OK" {
			t.Fatalf("a request is answered %v (%v), want OK: whatever the history does, the limiter is unharmed", s, err)
		}
	}
}

// expectLifetime wants the history to hold so many hits of the rule, exactly, within some flushes.
func expectLifetime(t *testing.T, w *weirtest.Weir, want uint64) (is curve) {
	t.Helper()
	weirtest.Eventually(t, fmt.Sprintf("the history holds %d hits", want), func() (err error) {
		is, err = kept(w)
		if err != nil || is.Error != "" || len(is.Series) != 1 || is.Series[0].Lifetime != want {
			return fmt.Errorf("it answers %+.300v, %w", is, err)
		}
		var sum uint64
		for _, p := range is.Series[0].Points {
			sum += p.Sum
		}
		if sum != want {
			t.Errorf("points make %d of %d hits", sum, want)
		}
		return nil
	})
	return is
}

func TestASeriesThatIsTooLongShrinksWithoutAJobAndStaysExact(t *testing.T) {
	t.Parallel()
	const limit, minutes, more = 100, 900, 7
	dir := t.TempDir()
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep()})
	if err != nil {
		t.Fatal(err)
	}
	filled := fill(t, store, minutes)
	w := weirtest.Serve(t, largePlan, "DATA_DIR="+dir, fmt.Sprint("HISTORY_MAX_POINTS=", limit), "HISTORY_DOWNSAMPLE=false",
		"HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	expectHits(t, w, more)
	is := expectLifetime(t, w, filled+more)
	finer := 0
	for _, p := range is.Series[0].Points {
		if p.Tier != "1d" {
			finer++
		}
	}
	if finer > limit {
		t.Errorf("with HISTORY_MAX_POINTS=%d and no job a series holds %d points finer than a day: it would grow for ever", limit, finer)
	}
	wantCommands(t, w, wanted{"history verify", 0, []string{"each holds exactly what it ever counted"}})
	w.Drain(t)
}

func TestHitsAreSeenInTheHistoryAndProvenExact(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, tenAnHour, "HISTORY_FLUSH_INTERVAL=1s")
	hits(t, w.Client(t), 25, "basic/1", "ann")
	weirtest.Eventually(t, "hits are in the history one flush after they came", func() error {
		printed, code := w.Command(t, "history", "show", "--json", "--path", "plan=basic/1/user")
		var a struct {
			Series []struct {
				Path, Outcome string
				Total         int
			}
		}
		if err := json.Unmarshal([]byte(printed), &a); err != nil || code != 0 {
			return fmt.Errorf("exit code %d, printed %s", code, printed)
		}
		totals := make(map[string]int)
		for _, s := range a.Series {
			totals[s.Path+" "+s.Outcome] = s.Total
		}
		if totals["plan=basic%2F1/user within"] != 10 || totals["plan=basic%2F1/user over"] != 15 {
			return fmt.Errorf("the totals are %v, want 10 within and 15 over", totals)
		}
		return nil
	})
	wantCommands(t, w,
		wanted{"history show --path plan=basic/1/user --outcome over", 0, []string{"total 15   lifetime 15"}},
		wanted{"history top --by over", 0, []string{"shop plan=basic/1/user"}},
		wanted{"history verify", 0, []string{"each holds exactly what it ever counted"}},
		wanted{"history show --domain nobody", 2, []string{"there is no history of domain nobody; there is of shop"}})
	printed, code := process.Command(t, nil, process.Weir(t), "downsample", "--once")
	if code != 2 || !strings.Contains(printed, "belongs to its weir serve") {
		t.Errorf("weir downsample beside an embedded history ended with %d and printed\n%s", code, printed)
	}
}

func TestATornHistoryFileIsSaidAndLeftAloneWhileWeirLimits(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	w := weirtest.Serve(t, largePlan, "DATA_DIR="+data, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	expectHits(t, w, 3)
	w.Drain(t)
	path := filepath.Join(data, filehistory.Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)*3/8]
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}

	w.Restart(t)
	w.Says(t, "level=WARN", path, "is damaged", "move the file away")
	expectHits(t, w, 5)
	if c, err := kept(w); err != nil || !strings.Contains(c.Error, "is damaged") {
		t.Errorf("the API answers %+v, %v, want the reason why there is no history", c, err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(torn) {
		t.Errorf("the torn file has been changed (%v): nobody may make it worse", err)
	}
	// Whoever moves the file away gets what has waited meanwhile.
	if err := os.Rename(path, path+".torn"); err != nil {
		t.Fatal(err)
	}
	w.Drain(t)
	w.Restart(t)
	expectLifetime(t, w, 5)
	w.Drain(t)
	if err := os.WriteFile(path, whole, 0o600); err != nil { // as from a copy
		t.Fatal(err)
	}
	w.Restart(t)
	expectLifetime(t, w, 3)
}

func TestAnotherFormatIsSaidAndLeftAloneWhileWeirLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	store, err := redishistory.Open(redishistory.Config{Redis: topology.Config{URL: server.Addr, Timeout: process.Hang}})
	if err != nil {
		t.Fatal(err)
	}
	filled := fill(t, store, 10)
	set := func(version string) {
		pipe := server.Client().Pipeline()
		for p := range history.Partitions {
			pipe.Set(t.Context(), fmt.Sprintf("%s{%d}:format", redishistory.Prefix, p), version, 0)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set("2")
	env := []string{"REDIS_URL=" + server.Addr, weirtest.PatientRedis, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s"}
	w := weirtest.Serve(t, largePlan, env...)
	w.Says(t, "level=WARN", "in another format: 2, and this weir knows 1")
	expectHits(t, w, 4)
	if c, err := kept(w); err != nil || !strings.Contains(c.Error, "another format") {
		t.Errorf("the API answers %+v, %v, want the reason why it cannot", c, err)
	}
	for _, args := range []string{"downsample --once", "history verify"} {
		printed, code := process.Command(t, env, process.Weir(t), strings.Fields(args)...)
		if code != 2 || !strings.Contains(printed, "another format") {
			t.Errorf("weir %s ends with %d, want 2, and says %s", args, code, printed)
		}
	}
	set("1") // the right weir is back, and what waited lands beside what was there
	expectLifetime(t, w, filled+4)
}
