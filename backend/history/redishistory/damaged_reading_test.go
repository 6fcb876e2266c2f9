package redishistory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// chunkOf is a chunk of a tier that a series has.
func chunkOf(t *testing.T, s *Store, tier history.Tier, id history.ID) history.Chunk {
	t.Helper()
	found, _, err := s.records(t.Context(), id.Partition(), []history.ID{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("reading %+v: %d found, %v", id, len(found), err)
	}
	for _, c := range found[0].chunks {
		if c.Tier == tier {
			return c
		}
	}
	t.Fatalf("%+v has no chunk of %v: the suite was to fill all tiers", id, tier)
	return history.Chunk{}
}

func TestDamageKeepsNoOtherSeriesFromBeingRead(t *testing.T) {
	f := shared(t, topology.Single)
	client := f.client()
	// damage is a command about the key of a series, or about one of its chunk's.
	damage := func(kind string, key func(*testing.T, *Store, history.ID) string, command ...any) historytest.Damage {
		return historytest.Damage{Kind: kind, Do: func(t *testing.T, s history.Store, id history.ID) string {
			at := key(t, s.(*Store), id)
			if err := client.Do(t.Context(), append([]any{command[0], at}, command[1:]...)...).Err(); err != nil {
				t.Fatal(err)
			}
			return at
		}}
	}
	own := func(_ *testing.T, _ *Store, id history.ID) string { return seriesKey(id.Partition(), seriesName(id)) }
	chunk := func(tier history.Tier, part int) func(*testing.T, *Store, history.ID) string {
		return func(t *testing.T, s *Store, id history.ID) string {
			return keysOf(own(t, s, id), chunkOf(t, s, tier, id))[part]
		}
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
		return opened(t, f, o.Now, func(c *Config) { c.Keep, c.Step = o.Keep, o.Step })
	}, damages...)
}

func TestNamesThatAreLostKeepNoOtherPartitionFromBeingRead(t *testing.T) {
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
	client := f.client()
	client.Del(t.Context(), dueKey(a.p))
	if err := client.Set(t.Context(), dueKey(a.p), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var found []history.Series
	err := s.Query(t.Context(), historytest.Everything(), func(one history.Series) error {
		found = append(found, one)
		return nil
	})
	slices.SortFunc(found, func(x, y history.Series) int { return y.ID.Compare(x.ID) })
	if err != nil || len(found) != 2 || found[0].ID != other || !found[0].Exact() {
		t.Fatalf("a query gives %+v, %v; want the series of the other partition, and that names are lost", found, err)
	}
	if lost := found[1]; !lost.Unnamed || !errors.Is(lost.Err, ErrDamaged) || !strings.Contains(lost.Err.Error(), dueKey(a.p)) {
		t.Errorf("what is lost comes as %+v, want no name, and a reason with %s", lost, dueKey(a.p))
	}
}
