package admin

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/server/curves"
)

// yearSeries are few: make soak has more.
var yearSeries = flag.Int("year-series", 2, "how many series the year of traffic has; with 200 it takes some minutes")

// traffic is that of one series: of one in twenty each minute, of some in office hours, of most an hour now and then.
type traffic int

func (n traffic) id() history.ID {
	return history.ID{Domain: "year", Path: fmt.Sprint("rule", int(n)), Outcome: history.Outcome(int(n) % history.Outcomes)}
}

// hits are those of a minute since 1970.
func (n traffic) hits(minute int64) uint64 {
	mixed := uint64(minute)*0x9e3779b97f4a7c15 + uint64(n)*0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>29) * 0x94d049bb133111eb
	day, hour := minute/1440, minute/60%24
	switch {
	case n%20 == 19:
	case n%5 == 1 && (day%7 == 2 || day%7 == 3 || hour < 8 || hour >= 16 || minute%5 > 0): // 1970 began on a Thursday
		return 0
	case n%5 != 1 && ((minute/60+int64(n))%7 > 0 || mixed>>32%5 > 0):
		return 0
	}
	return 1 + mixed>>40%1000
}

// jobDays is how many days go by between two runs of the job.
const jobDays = 7

// live brings traffic to a store by the day, and has the job run now and then and on the last day.
func (k *kept) live(t *testing.T, days int) {
	for day := range days {
		k.now = k.now.AddDate(0, 0, 1)
		var hits []hit
		for n := range *yearSeries {
			for at := k.now.Unix() - 86400; at < k.now.Unix(); at += 60 {
				if some := traffic(n).hits(at / 60); some > 0 {
					hits = append(hits, hit{traffic(n).id(), at, some})
				}
			}
		}
		k.add(t, hits...)
		if day%jobDays == (days-1)%jobDays {
			k.roll(t)
		}
	}
}

// stored is what a store must hold of a series that began then: each minute in a bucket of the tier that its age says.
func stored(keep history.Keep, n traffic, begin, now int64) (points []history.Point, total uint64) {
	for at := begin; at < now; at += 60 {
		hits := n.hits(at / 60)
		if hits == 0 {
			continue
		}
		total += hits
		tier := history.Minutes
		for tier < history.Days && keep.Due(history.ChunkOf(tier, at), 0) <= now {
			tier++
		}
		start := at - at%tier.Width()
		if last := len(points) - 1; last >= 0 && points[last].Start == start {
			points[last].Sum += hits
			points[last].Peak = max(points[last].Peak, hits)
			continue
		}
		points = append(points, history.Point{Start: start, Tier: tier, Sum: hits, Peak: hits})
	}
	return points, total
}

// A year goes by in both stores; in make test fifty days in a file, which is as many tiers.
func TestAYearIsExactAndAsSmallAsItsTiersSay(t *testing.T) {
	stores, days := map[string]func(*testing.T, *kept, history.Keep) (bytes func() int64){"file": inFile, "redis": inRedis}, 365
	if testing.Short() {
		delete(stores, "redis")
		days = 50
	}
	begin := time.Date(2025, 11, 21, 0, 0, 0, 0, time.UTC) // a Friday, so that years and weeks begin at other times
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep := history.DefaultKeep()
			keep.MaxPoints = 15_000 // what comes between two jobs
			k := &kept{now: begin}
			size := open(t, k, keep)
			empty := size()
			k.live(t, days)
			all := 0
			got := make(map[history.ID]history.Series)
			if err := k.store.Query(t.Context(), history.Query{To: history.Always().To}, func(s history.Series) error {
				got[s.ID] = s
				return nil
			}); err != nil || len(got) != *yearSeries {
				t.Fatalf("%d series, want %d (%v)", len(got), *yearSeries, err)
			}
			for n := range *yearSeries {
				want, total := stored(keep, traffic(n), begin.Unix(), k.now.Unix())
				s := got[traffic(n).id()]
				if all += len(want); s.Lifetime != total || !s.Exact() || !slices.Equal(s.Points, want) {
					t.Errorf("%+v has %d hits in %d points, want %d in %d, as its tiers say, sums and peaks included", s.ID, s.Lifetime,
						len(s.Points), total, len(want))
				}
			}
			bytes := size() - empty
			t.Logf("%d series of %d days: %d points, %d KB, %.1f bytes a point", *yearSeries, days, all, bytes>>10, float64(bytes)/float64(all))

			answer, err := curves.NewHistory(k.store, func() time.Time { return k.now }).Show(t.Context(), curves.Question{From: "-365d", Points: 500})
			if err != nil || len(answer.Series) != *yearSeries {
				t.Fatalf("a curve of the year: %v, %d series", err, len(answer.Series))
			}
			for _, s := range answer.Series {
				var sum uint64
				for _, p := range s.Points {
					sum += p.Sum
				}
				if sum != s.Lifetime || s.Total != s.Lifetime || len(s.Points) > 500 {
					t.Errorf("the curve of %s shows %d in %d points, total %d, lifetime %d: want all the same", s.Path, sum, len(s.Points),
						s.Total, s.Lifetime)
				}
			}
		})
	}
}

func inFile(t *testing.T, k *kept, keep history.Keep) (bytes func() int64) {
	dir := t.TempDir()
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: keep, Now: func() time.Time { return k.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	k.store = store
	return func() int64 {
		info, err := os.Stat(filepath.Join(dir, filehistory.Name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
}

func inRedis(t *testing.T, k *kept, keep history.Keep) (bytes func() int64) {
	server := redistest.Single(t)
	store, err := redishistory.Open(redishistory.Config{
		Redis: redis.Config{URL: server.Addr, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)},
		Now:   func() string { return strconv.FormatInt(k.now.UnixMicro(), 10) },
		Keep:  keep, Pace: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.store = store
	return func() int64 { return server.Stat(t, "used_memory_dataset") }
}
