package redishistory

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

var start = time.Date(2026, 11, 21, 11, 59, 48, 0, time.UTC)

// dump is all that a server holds.
func dump(t testing.TB, client *goredis.Client) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range client.Keys(t.Context(), "*").Val() {
		all[key] = client.Dump(t.Context(), key).Val()
	}
	return all
}

func fixed(at time.Time) func() time.Time { return func() time.Time { return at } }

// own is the key of a series itself.
func own(series string) string { return series }

// broken are ways to break what a server holds: commands, and the key that they are about by that of a series.
type broken struct {
	promise string
	key     func(series string) string
	command []any // the key is its second word
}

func (b *broken) do(t *testing.T, client *goredis.Client, series string) (key string) {
	t.Helper()
	key = b.key(series)
	if err := client.Do(t.Context(), append([]any{b.command[0], key}, b.command[1:]...)...).Err(); err != nil {
		t.Fatal(err)
	}
	return key
}

// apply counts a batch in a partition.
func apply(t *testing.T, s *Store, p history.Partition, b history.Batch) {
	t.Helper()
	if r, err := s.Apply(t.Context(), p, b); err != nil || r.Status != history.Applied {
		t.Fatalf("batch %d: %+v, %v", b.Seq, r, err)
	}
}

// TestApplyOnDamageChangesNothing damages one key after the other that a batch comes to, so that it fails in its
// midst. Nothing in Redis may then be different, and when the key is mended the same batch is counted once.
func TestApplyOnDamageChangesNothing(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	p, ids := historytest.Partners(5)
	hour, minute := history.ChunkOf(history.Minutes, start.Unix()), start.Unix()/60
	place := hour.Index(start.Unix())
	chunk := func(series string) string { return chunkKey(series, hour) }
	batch := history.Batch{Writer: "ann", Seq: 2, After: 1}
	for _, id := range ids {
		batch.Increments = append(batch.Increments, history.Increment{ID: id, Minute: minute, Hits: 3},
			history.Increment{ID: id, Minute: minute - 1, Hits: 4},
			history.Increment{ID: id, Minute: minute - 9*1440, Hits: 2, Tier: history.Hours, Peak: 2})
	}
	for _, damage := range []broken{
		{"a series of another type", own, []any{"set", "x"}},
		{"a chunk of another type", chunk, []any{"set", "x"}},
		{"a count that is no number", chunk, []any{"hset", place, "many"}},
		{"a total that is no number", own, []any{"hset", "total", "many"}},
		{"a count that is too large", chunk, []any{"hset", place, "9223372036854775807"}},
	} {
		for at := range ids {
			t.Run(fmt.Sprintf("%s at %d", damage.promise, at), func(t *testing.T) {
				f.Flush(t)
				s := opened(t, f, fixed(start), nil)
				apply(t, s, p, history.Batch{Writer: "ann", Seq: 1, Increments: []history.Increment{
					{ID: ids[0], Minute: minute - 2, Hits: 7}, {ID: ids[1], Minute: minute, Hits: history.MaxTotal}}})
				sound := dump(t, client)
				key := damage.do(t, client, seriesKey(p, seriesName(ids[at])))
				before := dump(t, client)
				_, err := s.Apply(t.Context(), p, batch)
				if at == 1 && err == nil { // it is full: what is damaged is not reached
					return
				}
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), key) {
					t.Fatalf("the error is %v, want one that is ErrDamaged and names %s", err, key)
				}
				if after := dump(t, client); !maps.Equal(before, after) {
					t.Fatalf("a batch that failed left a trace: what it counted would be counted again when it is sent again")
				}
				if client.Del(t.Context(), key); sound[key] != "" {
					if err := client.Restore(t.Context(), key, 0, sound[key]).Err(); err != nil {
						t.Fatal(err)
					}
				}
				apply(t, s, p, batch)
				for _, one := range historytest.All(t, s) {
					if !one.Exact() {
						t.Errorf("%+v is not exact", one)
					}
				}
				if got := historytest.All(t, s)[ids[0]].Lifetime; got != 16 {
					t.Errorf("once mended, the first series has %d hits, want 16", got)
				}
			})
		}
	}
}

// TestMoveOnDamageLosesNoHits damages what a move of one of many series reads or adds to. It must lose nothing,
// and hold up no other series.
func TestMoveOnDamageLosesNoHits(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	to := history.ChunkOf(history.FiveMinutes, start.Unix())
	from := func(series string) string { return chunkKey(series, history.ChunkOf(history.Minutes, start.Unix())) }
	target := func(series string) string { return chunkKey(series, to) }
	p, _ := historytest.Partners(1)
	for _, damage := range []broken{
		{"a series of another type", own, []any{"set", "x"}},
		{"a field that no series has", own, []any{"hset", "x", "y"}},
		{"minutes of another type", from, []any{"set", "x"}},
		{"a minute that is no number", from, []any{"hset", "7", "x"}},
		{"a place that is no number", from, []any{"hset", "x", "7"}},
		{"a target of another type", target, []any{"set", "x"}},
		{"a target that is no number", target, []any{"hset", to.Index(start.Unix()), "x"}},
		{"peaks of another type", func(series string) string { return chunkKeys(series, to)[1] }, []any{"set", "x"}},
		{"a due set of other type", func(string) string { return dueKey(p) }, []any{"set", "x"}},
	} {
		t.Run(damage.promise, func(t *testing.T) {
			f.Flush(t)
			clock := start
			w := newWriter(opened(t, f, func() time.Time { return clock }, nil), 30)
			w.count(t, 0)
			w.count(t, 3)
			series := seriesKey(p, seriesName(w.ids[0]))
			at := damage.do(t, client, series)
			before := dump(t, client)
			clock = start.Add(48 * time.Hour)
			did, err := w.Downsample(t.Context(), clock)
			if err == nil || at != dueKey(p) && (!errors.Is(err, ErrDamaged) || did.Chunks < 29) {
				t.Errorf("the job says %v and did %+v, want it to tell of the damage and to move all other series", err, did)
			}
			for key, content := range before {
				ours := strings.HasPrefix(key, series) || key == at
				if ours && client.Dump(t.Context(), key).Val() != content {
					t.Errorf("a move that failed has changed %s", key)
				}
			}
		})
	}
}

// TestDownsampleSkipsInvalidSeriesNames puts pages of such names where the job comes first: both where it goes by what
// is due, and where it visits all as it does not know the dates.
func TestDownsampleSkipsInvalidSeriesNames(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	for way, dated := range map[string]bool{"by what is due": true, "all": false} {
		for _, dry := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, dry run %v", way, dry), func(t *testing.T) {
				f.Flush(t)
				clock := start
				s := opened(t, f, func() time.Time { return clock }, nil)
				a := newWriter(s, 60)
				a.count(t, 0)
				if dated {
					historytest.Downsample(t, s, clock)
				}
				const wrong = 3*pageSize - 7
				for i := range wrong {
					name := goredis.Z{Score: float64(i), Member: fmt.Sprint("shop", i)}
					if err := client.ZAdd(t.Context(), dueKey(a.p), name).Err(); err != nil {
						t.Fatal(err)
					}
				}
				clock = start.Add(48 * time.Hour)
				work := s.Downsample
				if dry {
					work = s.Due
				}
				did, err := work(t.Context(), clock)
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dueKey(a.p)) {
					t.Errorf("the job says %v, want to be told of a name that is none", err)
				}
				if did.Series != 60 || dry == (did.Chunks > 0) {
					t.Errorf("the job did %+v, want it to move the minutes of all 60 series, or to count them", did)
				}
			})
		}
	}
}

func TestDamagedSeriesHidesNoOtherSeries(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	damage := func(kind string, key func(series string) string, command ...any) historytest.Damage {
		return historytest.Damage{Kind: kind, Do: func(t *testing.T, _ history.Store, id history.ID) string {
			return (&broken{kind, key, command}).do(t, client, seriesKey(id.Partition(), seriesName(id)))
		}}
	}
	chunk := func(tier history.Tier, part int) func(series string) string {
		return func(series string) string { return chunkKeys(series, historytest.DamagedChunk(tier))[part] }
	}
	damages := []historytest.Damage{
		damage("a series of another type", own, "set", "x"),
		damage("a total that is no number", own, "hset", "total", "many"),
		damage("a total of several words", own, "hset", "total", "7 times 3"),
		damage("an expired that is no number", own, "hset", "expired", "-1"),
		damage("a field that no series has", own, "hset", "x", "y"),
		damage("a chunk of no tier", own, "hset", "w7", ""),
		damage("peaks that are no numbers", chunk(history.Days, 1), "hset", "0", "many"),
		damage("peaks of another type", chunk(history.Hours, 1), "set", "x"),
		{Kind: "a name that is none", Unnamed: true, Lost: true, Do: func(t *testing.T, _ history.Store, id history.ID) string {
			key := dueKey(id.Partition())
			client.ZRem(t.Context(), key, seriesName(id))
			if err := client.ZAdd(t.Context(), key, goredis.Z{Score: 1, Member: "shop"}).Err(); err != nil {
				t.Fatal(err)
			}
			return key + `: "shop"`
		}},
	}
	for tier := range history.Tiers {
		at := history.Tier(tier)
		damages = append(damages, damage("a chunk of another type, of "+at.String(), chunk(at, 0), "set", "x"),
			damage("a count that is no number, of "+at.String(), chunk(at, 0), "hset", "7", "many"),
			damage("a count of several words, of "+at.String(), chunk(at, 0), "hset", "7", "8 9 10"),
			damage("a place that the chunk does not have, of "+at.String(), chunk(at, 0), "hset", "999", "7"))
	}
	historytest.RunDamaged(t, func(t *testing.T, o historytest.Options) history.Store {
		f.Flush(t)
		return opened(t, f, o.Now, func(c *Config) { c.Retention, c.Step = o.Retention, o.Step })
	}, damages...)
}

func TestLostNamesHideNoOtherPartition(t *testing.T) {
	f := shared(t, topology.Single)
	s := opened(t, f, fixed(start), nil)
	a := newWriter(s, 3)
	a.count(t, 0)
	other := history.ID{Domain: "mail"}
	for n := 0; other.Partition() == a.p; n++ {
		other.Path = fmt.Sprint(n)
	}
	apply(t, s, other.Partition(), history.Batch{Writer: "bob", Seq: 1,
		Increments: []history.Increment{{ID: other, Minute: start.Unix() / 60, Hits: 5}}})
	(&broken{"", func(string) string { return dueKey(a.p) }, []any{"set", "x"}}).do(t, f.client(), "")
	lost := false
	err := s.Query(t.Context(), historytest.Everything(), func(one history.Series) error {
		if lost = lost || one.Unnamed; one.Unnamed && (!errors.Is(one.Err, ErrDamaged) || !strings.Contains(one.Err.Error(), dueKey(a.p))) {
			t.Errorf("what is lost comes as %+v, want no name, and a reason with %s", one, dueKey(a.p))
		}
		return nil
	})
	if found := historytest.All(t, s); err != nil || !lost || len(found) != 1 || found[other].Lifetime != 5 {
		t.Errorf("a query gives %+v, %v; want the series of the other partition, and that names are lost (%v)", found, err, lost)
	}
}
