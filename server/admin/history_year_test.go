package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/server/curves"
)

// yearSeries are few where the race detector makes a year long.
var yearSeries = flag.Int("year-series", 2, "how many series the year of traffic has: make soak has 20; with 200 it takes some minutes")

const (
	daySeconds = 24 * 60 * 60
	yearDays   = 365
)

// yearBegin is a Friday, so that years, weeks and the year of traffic all begin at different times.
var yearBegin = time.Date(2025, 11, 21, 0, 0, 0, 0, time.UTC)

// traffic is a year of one series: of one in twenty each minute, of some in office hours, of most an hour now and then.
type traffic int

func (n traffic) id() history.ID {
	return history.ID{Domain: "year", Path: fmt.Sprint("rule", int(n)), Outcome: history.Outcome(int(n) % history.Outcomes)}
}

// always reports whether the series has hits in every minute.
func (n traffic) always() bool { return n%20 == 19 }

// hits are those of a minute since 1970.
func (n traffic) hits(minute int64) uint64 {
	mixed := uint64(minute)*0x9e3779b97f4a7c15 + uint64(n)*0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>29) * 0x94d049bb133111eb
	day, hour := minute/1440, minute/60%24
	switch {
	case n.always():
	case n%5 == 1 && (day%7 == 2 || day%7 == 3 || hour < 8 || hour >= 16 || minute%5 > 0): // 1970 began on a Thursday
		return 0
	case n%5 != 1 && ((minute/60+int64(n))%7 > 0 || mixed>>32%5 > 0):
		return 0
	}
	return 1 + mixed>>40%1000
}

// livedYear is a store that a year goes by.
type livedYear struct {
	t     *testing.T
	store history.Store
	keep  history.Keep
	now   time.Time // only changed while nobody uses the store
	fed   uint64    // increments
}

// jobDays is how many days go by between two runs of the job.
const jobDays = 7

// live brings a year of traffic to the store, by the day, and has the job run now and then and on the last day.
func (y *livedYear) live() {
	for day := range yearDays {
		y.now = yearBegin.AddDate(0, 0, day+1)
		byPartition := make(map[history.Partition][]history.Increment)
		for n := range *yearSeries {
			id := traffic(n).id()
			for at := y.now.Unix() - daySeconds; at < y.now.Unix(); at += 60 {
				if hits := traffic(n).hits(at / 60); hits > 0 {
					byPartition[id.Partition()] = append(byPartition[id.Partition()],
						history.Increment{ID: id, Minute: at / 60, Hits: hits})
				}
			}
		}
		var landing sync.WaitGroup
		for p, all := range byPartition {
			y.fed += uint64(len(all))
			landing.Go(func() { y.land(p, fmt.Sprint("day", day), all) })
		}
		landing.Wait()
		if day%jobDays != (yearDays-1)%jobDays && !y.t.Failed() {
			continue
		}
		if _, err := y.store.Roll(y.t.Context(), history.Job{Now: y.now}); err != nil || y.t.Failed() {
			y.t.Fatalf("the job of day %d: %v", day, err)
		}
	}
}

func (y *livedYear) land(p history.Partition, writer string, all []history.Increment) {
	seq := uint64(0)
	for some := range slices.Chunk(all, history.MaxBatch) {
		seq++
		b := history.Batch{Writer: writer, Seq: seq, After: seq - 1, Increments: some}
		if r, err := y.store.Apply(y.t.Context(), p, b); err != nil || r.Landing != history.Landed || r.Clamped+r.Refused > 0 {
			y.t.Errorf("batch %d of %s: %+v, %v", seq, writer, r, err)
			return
		}
	}
}

// want is what the store must hold of a series: each minute in a bucket of the tier that its age says.
func (y *livedYear) want(n traffic) (points []history.Point, total uint64) {
	for at := yearBegin.Unix(); at < y.now.Unix(); at += 60 {
		hits := n.hits(at / 60)
		if hits == 0 {
			continue
		}
		total += hits
		tier := history.Minutes
		for tier < history.Days && y.keep.Due(history.ChunkOf(tier, at), 0) <= y.now.Unix() {
			tier++
		}
		begin := at - at%tier.Width()
		if last := len(points) - 1; last >= 0 && points[last].Start == begin {
			points[last].Sum += hits
			points[last].Peak = max(points[last].Peak, hits)
			continue
		}
		points = append(points, history.Point{Start: begin, Tier: tier, Sum: hits, Peak: hits})
	}
	return points, total
}

// check compares all points of all series, and returns how many there are, and how many of one that is always busy.
func (y *livedYear) check() (all, busy int) {
	got := make(map[history.ID]history.Series)
	err := y.store.Query(y.t.Context(), history.Query{To: history.Always().To}, func(s history.Series) error {
		got[s.ID] = s
		return nil
	})
	if err != nil || len(got) != *yearSeries {
		y.t.Fatalf("%d series after a year, want %d (%v)", len(got), *yearSeries, err)
	}
	for n := range *yearSeries {
		want, total := y.want(traffic(n))
		s := got[traffic(n).id()]
		if s.Lifetime != total || s.Expired != 0 || !s.Exact() {
			y.t.Errorf("%+v has %d hits after a year, want %d", s.ID, s.Lifetime, total)
		}
		if !slices.Equal(s.Points, want) {
			y.t.Errorf("%+v has %d points, want the %d that its tiers say, sums and peaks included", s.ID, len(s.Points), len(want))
		}
		if all += len(want); traffic(n).always() {
			busy = len(want)
		}
	}
	return all, busy
}

// ask asks the API for a year as people see it, and says how long that took.
func (y *livedYear) ask(path string) time.Duration {
	h := curves.NewHistory(y.store, func() time.Time { return y.now })
	question := curves.Question{Domain: "year", Path: path, From: "-365d", Points: 500}
	var body bytes.Buffer
	began := time.Now()
	answer, err := h.Show(y.t.Context(), question)
	if err == nil {
		err = answer.WriteJSON(&body)
	}
	took := time.Since(began)
	var a curves.HistoryAnswer
	if err == nil {
		err = json.Unmarshal(body.Bytes(), &a)
	}
	if err != nil || len(a.Series) == 0 {
		y.t.Fatalf("a year of %q: %v, %d series", path, err, len(a.Series))
	}
	for _, s := range a.Series {
		var sum uint64
		for _, p := range s.Points {
			sum += p.Sum
		}
		if sum != s.Lifetime || s.Total != s.Lifetime || len(s.Points) > 500 {
			y.t.Errorf("the curve of %s shows %d in %d points, total %d, lifetime %d: want all the same", s.Path, sum, len(s.Points),
				s.Total, s.Lifetime)
		}
	}
	return took
}

// TestAYearIsExactAndAsSmallAsItsTiersSay lets a year of traffic go by in both stores.
func TestAYearIsExactAndAsSmallAsItsTiersSay(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *livedYear) (bytes func() int64){"file": yearInFile, "redis": yearInRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := &livedYear{t: t, keep: history.DefaultKeep(), now: yearBegin}
			y.keep.MaxPoints = 15_000 // what comes between two jobs
			size := open(t, y)
			empty, began := size(), time.Now()
			y.live()
			lived := time.Since(began)
			all, busy := y.check()
			bytes := size() - empty
			t.Logf("%d series, a year of %d minutes with hits in %v: %d points (1 of %d), %d of one that is always busy; "+
				"%d KB, %.1f bytes a point, %.1f KB a series", *yearSeries, y.fed, lived.Round(time.Millisecond), all,
				y.fed/uint64(all), busy, bytes>>10, float64(bytes)/float64(all), float64(bytes)/1024/float64(*yearSeries))
			t.Logf("a curve of the year: %v of one series, %v of all", y.ask(traffic(*yearSeries-1).id().Path), y.ask(""))
		})
	}
}

func yearInFile(t *testing.T, y *livedYear) (bytes func() int64) {
	dir := t.TempDir()
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: y.keep, Now: func() time.Time { return y.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	y.store = store
	return func() int64 {
		info, err := os.Stat(filepath.Join(dir, filehistory.Name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
}

func yearInRedis(t *testing.T, y *livedYear) (bytes func() int64) {
	server := redistest.Single(t)
	store, err := redishistory.Open(redishistory.Config{
		Redis: redis.Config{URL: server.Addr, Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
		Now:   func() string { return strconv.FormatInt(y.now.UnixMicro(), 10) },
		Keep:  y.keep, Pace: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	y.store = store
	return func() int64 { return server.Stat(t, "used_memory_dataset") }
}
