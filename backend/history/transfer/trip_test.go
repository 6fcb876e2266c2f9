package transfer_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/history/transfer"
	"github.com/weirproxy/weir/backend/redis/topology"
)

var now = time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC)

func clock() time.Time { return now }

const header = "domain,path,outcome,value,start,width,sum,peak\n"

// keep rolls everything early enough for a test, and nothing because there are too many points.
func keep() history.Retention {
	k := history.DefaultRetention()
	k.MaxPoints = 1 << 30
	return k
}

func openFile(t testing.TB) history.Store {
	store, err := filehistory.Open(filehistory.Config{Dir: t.TempDir(), Retention: keep(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func openRedis(t testing.TB) history.Store {
	store, err := redishistory.Open(redishistory.Config{
		Redis:     topology.Config{URL: redistest.Single(t).Addr, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)},
		Retention: keep(), Pace: 1, Now: func() string { return strconv.FormatInt(now.UnixMicro(), 10) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

var stores = map[string]func(testing.TB) history.Store{"File": openFile, "Redis": openRedis}

// random fills a store with hits of a few series at all ages, at the borders of tiers and in the present minute, and
// rolls it. Names are such as clients think of.
func random(t testing.TB, rng *rand.Rand) history.Store {
	t.Helper()
	store := historytest.NewLedgers(historytest.Options{Retention: keep(), Now: clock, Step: func(string) {}})
	names := []history.ID{
		{Domain: "shop", Path: "user"}, {Domain: "shop", Path: "user", Value: "user=ann,\"quoted\"%0Aline"},
		{Domain: "<img src=x>", Path: `back\slash`}, {Domain: "mail", Path: "from", Value: " spaced "}, {Domain: "\\.", Path: " blank"},
	}
	hits := make(map[history.Increment]uint64)
	for range 400 {
		id := names[rng.IntN(len(names))]
		id.Outcome = history.Outcome(rng.IntN(history.Outcomes))
		ages := []int64{0, 1, 5, 60, 24 * 60, 25 * 60, 7 * 1440, 8 * 1440, 30 * 1440, 37 * 1440, 38 * 1440, 400 * 1440}
		age := ages[rng.IntN(len(ages))]
		if age > 0 {
			age += rng.Int64N(3) - 1
		}
		if rng.IntN(2) == 0 {
			age = rng.Int64N(500 * 1440)
		}
		i := history.Increment{ID: id, Minute: now.Unix()/60 - age}
		hits[i] += 1 + uint64(rng.ExpFloat64()*float64(uint64(1)<<rng.IntN(45)))
	}
	for i, n := range hits {
		i.Hits = n
		historytest.Count(t, store, i)
	}
	historytest.Downsample(t, store, now)
	return store
}

// all returns the series of a store, which must be exact.
func all(t testing.TB, store history.Store) (found []history.Series) {
	t.Helper()
	for _, s := range historytest.All(t, store) {
		if !s.Exact() {
			t.Errorf("%+v is not exact (%v)", s.ID, s.Err)
		}
		found = append(found, s)
	}
	return found
}

// write exports a store.
func write(t testing.TB, store history.Store, f transfer.Format) string {
	t.Helper()
	all(t, store)
	var out bytes.Buffer
	w := transfer.NewWriter(&out, f, history.Always(), now.Unix())
	for _, outcomes := range f.QueryGroups(nil) {
		err := store.Query(t.Context(), history.Query{Outcomes: outcomes, To: history.Always().To}, func(s history.Series) error {
			_, err := w.Write(&s)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// read imports a text, by a process that dies again and again, as often as it takes.
func read(t testing.TB, text string, store history.Store) (last transfer.LoadResult, died int) {
	t.Helper()
	for ; died < 1000; died++ {
		target := transfer.Target{Store: &mortal{Store: store, left: 1 + 3*died}, Concurrency: 8, Now: clock}
		last, err := transfer.Import(t.Context(), strings.NewReader(text), target)
		if err == nil {
			return last, died
		}
		if !errors.Is(err, errDead) {
			t.Fatal(err)
		}
	}
	t.Fatal("it never comes to its end")
	return last, died
}

// mortal is a store whose process dies at an Apply: before it or, if that was counted, before anybody hears of it.
type mortal struct {
	history.Store
	mu   sync.Mutex
	left int
}

var errDead = errors.New("dead")

func (m *mortal) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	if m.left <= 0 && m.left%2 == 0 {
		return history.ApplyResult{}, errDead
	}
	r, err := m.Store.Apply(ctx, p, b)
	if m.left <= 0 {
		return history.ApplyResult{}, cmp.Or(err, errDead)
	}
	return r, err
}

func TestImportReadsBackItsExport(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(3)
			if testing.Short() {
				seeds = 1
			}
			for seed := range seeds {
				to := open(t)
				text := write(t, random(t, rand.New(rand.NewPCG(seed, 16))), transfer.CSV)
				for n, reading := range []string{"first", "second"} {
					did, died := read(t, text, to)
					if where := difference(text, write(t, to, transfer.CSV)); where != "" {
						t.Errorf("seed %d: CSV that a %s reading has read back and that is written again differs at %s", seed, reading, where)
					}
					if died == 0 || did.Refused > 0 || n == 1 && did.Duplicates != did.Hits {
						t.Errorf("seed %d: a %s reading died %d times, and did %+v in the end", seed, reading, died, did)
					}
				}
			}
		})
	}
}

// difference returns where two texts differ once their lines are in order, as an export has none of its own; "" for
// nowhere.
func difference(a, b string) string {
	x, y := slices.Sorted(strings.Lines(a)), slices.Sorted(strings.Lines(b))
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: %q, then %q", i+1, x[i], y[i])
		}
	}
	if len(x) != len(y) {
		return fmt.Sprintf("%d lines, then %d", len(x), len(y))
	}
	return ""
}

// unmovable is a store that counts, and where a job fails, as it does where a series is damaged, or somebody else
// writes to it without a pause.
type unmovable struct {
	history.Store
	hits atomic.Uint64
	jobs int
}

var errUnsteady = errors.New("it changes faster than it can be read")

func (u *unmovable) Apply(_ context.Context, _ history.Partition, b history.Batch) (history.ApplyResult, error) {
	for _, i := range b.Increments {
		u.hits.Add(i.Hits)
	}
	return history.ApplyResult{Status: history.Applied, Last: b.Seq}, nil
}

func (u *unmovable) Query(context.Context, history.Query, func(history.Series) error) error {
	return nil // it is empty
}

func (u *unmovable) Downsample(context.Context, time.Time) (history.DownsampleResult, error) {
	u.jobs++
	return history.DownsampleResult{}, errUnsteady
}

func TestImportFinishesThoughDownsamplingFails(t *testing.T) {
	t.Parallel()
	const rows = 720 // of 720 minutes, as no bucket has half a day: enough for a job before the end
	var text strings.Builder
	text.WriteString(header)
	for day := range int64(rows) {
		fmt.Fprintf(&text, "shop,user,within,,%d,43200,720,\n", (now.Unix()/86400-10-day)*86400)
	}
	store := &unmovable{}
	did, err := transfer.Import(t.Context(), strings.NewReader(text.String()), transfer.Target{Store: store, Concurrency: 8, Now: clock})
	if store.jobs != 2 {
		t.Fatalf("%d jobs ran, want one on the way and one in the end", store.jobs)
	}
	if !errors.Is(err, errUnsteady) || !strings.Contains(err.Error(), "everything is counted") {
		t.Errorf("the reading ends with %v, want that of the last job, and that all is counted", err)
	}
	if did.Rows != rows || store.hits.Load() != rows*720 {
		t.Errorf("%d rows with %d hits were counted, want %d with 720 each", did.Rows, store.hits.Load(), rows)
	}
}

func TestImportRecognisesRepeatedParts(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			today := now.Unix() / 86400 * 86400
			row := func(start, width, sum int64) string {
				return fmt.Sprintf("shop,user,within,,%d,%d,%d,%d\n", start, width, sum, sum)
			}
			day, hour, minute := row(today-40*86400, 86400, 500), row(today-10*86400, 3600, 60), row(today, 60, 7)
			counted := uint64(0)
			for _, step := range []struct {
				file, text string
				add        bool // or the file is known
				alike      uint64
				hits       uint64 // that are counted
			}{
				{"the first", day + hour + minute, false, 0, 567},
				{"the same again", day + hour + minute, true, 0, 0},
				{"its head", day + hour, false, 2, 0},
				{"its last row", minute, false, 1, 0},
				{"another order", minute + day + hour, false, 3, 0},
				{"a later export", day + hour + minute + row(today+60, 60, 3), false, 3, 0},
				{"what it is part of, by the minute", row(today-10*86400, 60, 50), false, 1, 0},
				{"more hits than there are", row(today, 60, 8), false, 0, 8},
				{"other times", row(today+120, 60, 1), false, 0, 1},
				{"its head, of another weir", day + hour, true, 2, 560},
				{"that again", day + hour, true, 0, 0},
			} {
				target := transfer.Target{Store: store, Concurrency: 2, Now: clock, Add: step.add && step.hits > 0, DryRun: true}
				dry, err := transfer.Import(t.Context(), strings.NewReader(header+step.text), target)
				target.DryRun = false
				did, failed := transfer.Import(t.Context(), strings.NewReader(header+step.text), target)
				if fmt.Sprint(err) != fmt.Sprint(failed) || dry.LookCounted != did.LookCounted || dry.Resumed != (step.add && step.hits == 0) {
					t.Errorf("%s: a dry run finds %+v (%v), the import %+v (%v)", step.file, dry, err, did, failed)
				}
				err = failed
				if refused := step.alike > 0 && !step.add; refused != (err != nil) || refused && !strings.Contains(err.Error(), "look counted") {
					t.Errorf("%s: the import ends with %v, refused: %v is right, as hits must not count twice", step.file, err, refused)
				}
				counted += step.hits
				if held := all(t, store)[0].Lifetime; held != counted {
					t.Errorf("%s: %d hits are held, want %d", step.file, held, counted)
				}
			}
		})
	}
}

func TestImportWarnsOfRowsPastRetention(t *testing.T) {
	t.Parallel()
	const daySeconds = 24 * 60 * 60
	keeps := keep().Ages[history.Days]
	oldest := now.Unix() - now.Unix()%daySeconds - int64(keeps/time.Second) // the last day that a roll keeps begins here or later
	for days, want := range []string{"", "not older than HISTORY_RETENTION, 87600h0m0s"} {
		text := fmt.Sprintf(header+"shop,user,within,,%d,86400,10,\nshop,user,within,,%d,86400,10,\n",
			oldest+daySeconds, oldest-int64(days)*daySeconds)
		store := openFile(t)
		target := transfer.Target{Store: store, Concurrency: 1, Now: clock, Retention: keeps}
		_, err := transfer.Import(t.Context(), strings.NewReader(text), target)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d days too old: %v, want %q", days, err, want)
		}
		for _, s := range all(t, store) {
			if s.Expired > 0 {
				t.Errorf("%d days too old: %d hits have expired", days, s.Expired)
			}
		}
	}
}
