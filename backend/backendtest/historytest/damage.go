package historytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// ChangeChunk replaces the first stored chunk of a history's file, behind the back of its store, which is to be closed.
// With nil it deletes it: the history then no longer holds what it counted. It returns its key as people are told it.
func ChangeChunk(t testing.TB, path string, row []byte) (key string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte("rows"))
		c := rows.Cursor()
		for at, _ := c.First(); at != nil; at, _ = c.Next() {
			if at[1] == 't' {
				at = slices.Clone(at)
				key = fmt.Sprintf("%x", at)
				if row == nil {
					return rows.Delete(at)
				}
				return rows.Put(at, row)
			}
		}
		return errors.New("no chunk is stored")
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return key
}

// Damage is something that can befall what a store keeps of a series, behind its back.
type Damage struct {
	Kind string
	// Do does it to a series, and returns a part of the key at fault as people are told it.
	Do func(t *testing.T, store history.Store, id history.ID) (key string)
	// Unnamed is set if only a query that names the series can know whose damage it is.
	Unnamed bool
	// Lost is set if not even a query that names the series comes upon it, as it needs no list of names.
	Lost bool
}

// damagedAges are how old the hits in each tier of a series are that is to be damaged.
var damagedAges = [history.Tiers]time.Duration{0, 2 * day, 20 * day, 90 * day}

// DamagedChunk returns the chunk of a tier that each series has which [RunDamaged] has damaged.
func DamagedChunk(t history.Tier) history.Chunk {
	return history.ChunkOf(t, start.Add(-damagedAges[t]).Unix())
}

// RunDamaged puts a store to the test whose series are damaged, one way after the other: readers are told of the
// damaged series, and get all others to the integer. The series hold points of all tiers when they are damaged.
func RunDamaged(t *testing.T, open Open, damages ...Damage) {
	for _, d := range damages {
		t.Run(d.Kind, func(t *testing.T) { testDamaged(t, open, d) })
	}
}

func testDamaged(t *testing.T, open Open, d Damage) {
	b := newBench(t, open, history.Retention{})
	victim := history.ID{Domain: "shop", Path: "victim", Value: "v", Outcome: history.Within}
	ids := []history.ID{victim, sibling(victim), shop, {Domain: "mail", Path: "victim", Value: "v"}}
	for _, id := range ids {
		for _, age := range damagedAges {
			b.count(history.Increment{ID: id, Minute: start.Add(-age).Unix() / 60, Hits: uint64(age/day) + 5})
		}
	}
	b.downsample()
	key := d.Do(t, b.store, victim)

	broken, sound := b.queryDamaged(Everything())
	if len(broken) != 1 {
		t.Fatalf("a query for all gives %d damaged series, want 1", len(broken))
	}
	b.blames(broken[0], key, victim, d.Unnamed)
	b.agreeWithout(victim, sound, Everything())

	named := only(victim)
	broken, sound = b.queryDamaged(named)
	switch {
	case d.Lost && len(broken) == 0:
		b.agreeOn(named)
	case len(broken) != 1 || len(sound) > 0:
		t.Errorf("a query for the series alone gives %d damaged and %d sound ones, want 1 and none", len(broken), len(sound))
	default:
		b.blames(broken[0], key, victim, false)
	}
	for _, id := range ids[1:] {
		broken, sound = b.queryDamaged(only(id))
		if len(broken) > 0 {
			t.Errorf("a query for %v, which is sound, tells of the damage of another: %v", short(id), broken[0].Err)
		}
		b.agreeWithout(victim, sound, only(id))
	}
}

// queryDamaged returns what the store answers, damaged series apart.
func (b *bench) queryDamaged(q history.Query) (broken []history.Series, sound map[history.ID]history.Series) {
	b.t.Helper()
	sound = make(map[history.ID]history.Series)
	err := b.store.Query(context.Background(), q, func(s history.Series) error {
		switch {
		case s.Err != nil:
			broken = append(broken, s)
			return nil
		case s.Unnamed:
			return fmt.Errorf("a series without a name has no reason: %+v", s)
		}
		sound[s.ID] = s
		return nil
	})
	if err != nil {
		b.t.Fatalf("a query over a damaged series fails as a whole: %v", err)
	}
	return broken, sound
}

// blames wants a damaged series to name itself and the reason, and to hold nothing that was never counted.
func (b *bench) blames(s history.Series, key string, victim history.ID, unnamed bool) {
	b.t.Helper()
	if s.Unnamed != unnamed || unnamed && s.ID != (history.ID{}) || !unnamed && s.ID != victim {
		b.t.Errorf("the damaged series comes as %v, unnamed %v, want %v, unnamed %v", short(s.ID), s.Unnamed, short(victim), unnamed)
	}
	if !strings.Contains(s.Err.Error(), key) {
		b.t.Errorf("the reason is %q, want %q in it: people must know where to look", s.Err, key)
	}
	if s.Exact() {
		b.t.Error("a series of which some cannot be read counts as exact")
	}
	whole := b.naive.query(only(victim))[victim]
	for _, p := range s.Points {
		if !slices.ContainsFunc(whole.Points, func(w history.Point) bool {
			return w.Start == p.Start && w.Tier == p.Tier && w.Sum == p.Sum
		}) {
			b.t.Errorf("the damaged series shows %+v, which it never held", p)
		}
	}
}

// agreeWithout compares the sound series of an answer with the oracle: there are all but the victim.
func (b *bench) agreeWithout(victim history.ID, sound map[history.ID]history.Series, q history.Query) {
	b.t.Helper()
	if _, found := sound[victim]; found {
		b.t.Errorf("%v comes as sound, and is damaged", short(victim))
	}
	want := b.naive.query(q)
	delete(want, victim)
	b.compare(sound, want, q)
}
