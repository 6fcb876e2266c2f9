package filehistory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

func seriesOf(n int) []history.ID {
	ids := make([]history.ID, n)
	for i := range ids {
		ids[i] = history.ID{Domain: "shop", Path: fmt.Sprintf("user/path=%%2Fpay%d", i)}
	}
	return ids
}

// whole is what wholeFile returns, once it is made. Tests that need it do not run beside each other.
var whole []byte

// wholeFile returns the bytes, which are not to be changed, of a closed file with some thousand rows.
func wholeFile(t testing.TB) []byte {
	t.Helper()
	if whole != nil {
		return whole
	}
	dir, now := t.TempDir(), time.Now().Unix()/60
	s := opened(t, Open, Config{Dir: dir})
	s.db.NoSync = true
	var all []history.Increment
	for n, id := range seriesOf(1000) {
		for hour := range int64(3) {
			all = append(all, history.Increment{ID: id, Minute: now - 60*hour, Hits: uint64(n) + 1})
		}
	}
	historytest.Count(t, s, all...)
	if err := errors.Join(s.db.Sync(), s.Close()); err != nil {
		t.Fatal(err)
	}
	var err error
	if whole, err = os.ReadFile(filepath.Join(dir, Name)); err != nil {
		t.Fatal(err)
	}
	return whole
}

// holding returns a directory with a file of some bytes.
func holding(t testing.TB, content []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// use opens a file and does all that a process does with it. It returns the first error of each.
func use(dir string) (errs []error) {
	s, err := Open(Config{Dir: dir, Retention: history.DefaultRetention()})
	if err != nil {
		return []error{err}
	}
	return append(work(s), s.Close())
}

func work(s *Store) []error {
	ctx := context.Background()
	_, downsampleErr := s.Downsample(ctx, time.Now().AddDate(1, 0, 0))
	var applyErr error
	for _, id := range seriesOf(20) {
		_, err := s.Apply(ctx, id.Partition(), history.Batch{Writer: id.Path, Seq: 1,
			Increments: []history.Increment{{ID: id, Minute: time.Now().Unix() / 60, Hits: 1}}})
		if applyErr == nil {
			applyErr = err
		}
	}
	queryErr := s.Query(ctx, historytest.Everything(), func(history.Series) error { return nil })
	return []error{downsampleErr, applyErr, queryErr}
}

// instructs wants an error to tell an operator which file it is about and what to do.
func instructs(t *testing.T, what string, err error, dir string) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); !strings.Contains(text, filepath.Join(dir, Name)) || !errors.Is(err, ErrDamaged) ||
		!strings.Contains(text, "move the file away") {
		t.Errorf("%s: the error is %q, want one that names the file and says what to do", what, text)
	}
}

// What a disk may do to a file is an error that tells an operator what to do, or is not noticed, but it never ends the
// process.
func TestDamagedPagesNeverCrashTheProcess(t *testing.T) {
	sound := wholeFile(t)
	for _, c := range []struct {
		kind      string
		files     int
		noticed   int  // so many at least give errors: else nothing that matters was damaged
		leftAlone bool // by Open, if that fails: people may want to repair the file
		damage    func(r *rand.Rand, n int) []byte
	}{
		{"cut", third(75), third(75) / 3, true, func(r *rand.Rand, n int) []byte {
			if n%3 == 0 {
				return sound[:r.IntN(len(sound))/4096*4096] // as a file system would cut it
			}
			return sound[:r.IntN(len(sound))]
		}},
		{"overwritten", third(*damages), third(*damages) / 4, false, func(r *rand.Rand, _ int) []byte {
			damaged := bytes.Clone(sound)
			for range 1 + r.IntN(4) {
				damage(r, damaged)
			}
			return damaged
		}},
		{"free pages far behind the end, where bbolt writes next", 3, 3, false,
			func(_ *rand.Rand, n int) []byte { return farFreePages(sound, 1<<(50+n)) }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, *seed))
			noticed := 0
			for n := range c.files {
				content := c.damage(r, n)
				dir := holding(t, content)
				errs := use(dir)
				for _, err := range errs {
					if c.kind != "overwritten" || !errors.Is(err, ErrFormat) {
						instructs(t, fmt.Sprint("file ", n), err, dir)
					}
				}
				if errors.Join(errs...) != nil {
					noticed++
				}
				after, err := os.ReadFile(filepath.Join(dir, Name))
				if c.leftAlone && len(errs) == 1 && !bytes.Equal(after, content) {
					t.Errorf("file %d was changed by Open, which failed (%v)", n, err)
				}
			}
			t.Logf("of %d damaged files, %d gave errors", c.files, noticed)
			if noticed < c.noticed {
				t.Errorf("only %d of %d damaged files gave errors, want %d", noticed, c.files, c.noticed)
			}
		})
	}
}

// farFreePages returns a file whose lists of free pages name others, from a page far behind its end on.
func farFreePages(sound []byte, far uint64) []byte {
	const freelist, header, page = 0x10, 16, 4096
	damaged := bytes.Clone(sound)
	for p := 0; p+page <= len(damaged); p += page {
		if binary.LittleEndian.Uint16(damaged[p+8:]) != freelist {
			continue
		}
		for i := range int(binary.LittleEndian.Uint16(damaged[p+10:])) {
			binary.LittleEndian.PutUint64(damaged[p+header+8*i:], far+uint64(i))
		}
	}
	return damaged
}

func TestFileThatCannotGrowIsNotDamaged(t *testing.T) {
	s := &Store{name: "history file x"}
	for op, damaged := range map[string]bool{"write": true, "truncate": false, "open": false} {
		if err := s.wrap(&fs.PathError{Op: op, Path: "x", Err: syscall.EFBIG}); errors.Is(err, ErrDamaged) != damaged {
			t.Errorf("%s: %v; only a page written far behind the end is damage: nobody should move a good history away", op, err)
		}
	}
}

// damage overwrites a page, the beginning of one, or some bytes.
func damage(r *rand.Rand, file []byte) {
	page := r.IntN(len(file)/4096) * 4096
	switch r.IntN(4) {
	case 0:
		clear(file[page : page+4096])
	case 1:
		copy(file[page:page+4096], file[r.IntN(len(file)/4096)*4096:])
	case 2:
		for i := range 64 {
			file[page+i] = byte(r.Uint32())
		}
	default:
		for range 16 {
			file[page+r.IntN(4096)] = byte(r.Uint32())
		}
	}
}

func TestFileShrinkingWhileOpenIsAnError(t *testing.T) {
	dir := holding(t, wholeFile(t))
	s := opened(t, Open, Config{Dir: dir})
	if err := os.Truncate(filepath.Join(dir, Name), 4096*2); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is known
		for i, err := range work(s) {
			if err == nil {
				t.Errorf("operation %d found nothing wrong in a file that lost its pages", i)
			}
			instructs(t, "a file that shrank", err, dir)
		}
	}
}

func TestDamagedRowBlocksNoOtherPartition(t *testing.T) {
	dir := holding(t, wholeFile(t))
	s := opened(t, Open, Config{Dir: dir})
	ids := seriesOf(300)
	bad := ids[0]
	err := s.update(func(tx *bolt.Tx) error {
		return tx.Bucket(rowsBucket).Put(seriesKey(bad.Partition(), hashOf(bad)), []byte{0x80})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.writing.Lock() // so that all batches wait for the same transaction
	var applying sync.WaitGroup
	for _, id := range ids {
		applying.Go(func() {
			r, err := s.Apply(context.Background(), id.Partition(), history.Batch{Writer: id.Path, Seq: 1,
				Increments: []history.Increment{{ID: id, Minute: 1, Hits: 1}}})
			switch {
			case id == bad && err == nil:
				t.Error("a row that cannot be read was counted on")
			case id == bad:
				instructs(t, "a row that cannot be read", err, dir)
			case err != nil || r.Status != history.Applied:
				t.Errorf("%v: %+v, %v, want it counted though a row of another series is damaged", id, r, err)
			}
		})
	}
	s.writing.Unlock()
	applying.Wait()
	did, err := s.Downsample(context.Background(), time.Now())
	instructs(t, "the job over a damaged row", err, dir)
	if did.Chunks < 299 {
		t.Errorf("the job over a damaged row moved %v, want what is due of the other series at least", did.Chunks)
	}
}

func TestDamagedSeriesHidesNoOtherSeries(t *testing.T) {
	put := func(t *testing.T, store history.Store, key, row []byte) string {
		t.Helper()
		err := store.(*Store).update(func(tx *bolt.Tx) error { return tx.Bucket(rowsBucket).Put(key, row) })
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("row %x", key)
	}
	series := func(row []byte) func(*testing.T, history.Store, history.ID) string {
		return func(t *testing.T, store history.Store, id history.ID) string {
			return put(t, store, seriesKey(id.Partition(), hashOf(id)), row)
		}
	}
	damages := []historytest.Damage{
		{Kind: "a series that has no counts", Unnamed: true, Do: series([]byte{0x80})},
		{Kind: "a series of an outcome that is none", Unnamed: true, Do: series([]byte{5, 0, 1, 5, 4, 's', 'h', 'o', 'p', 0, 0})},
		{Kind: "a series that is empty", Unnamed: true, Do: series(nil)},
		{Kind: "a series that has counts and half a name", Unnamed: true, Do: series([]byte{5, 0, 1, 0, 4, 's', 'h'})},
	}
	for tier := range history.Tiers {
		damages = append(damages, historytest.Damage{Kind: "a chunk of " + history.Tier(tier).String(),
			Do: func(t *testing.T, store history.Store, id history.ID) string {
				chunk := historytest.DamagedChunk(history.Tier(tier))
				return put(t, store, chunkKey(id.Partition(), chunk, hashOf(id)), []byte{0xff})
			}})
	}
	historytest.RunDamaged(t, func(t *testing.T, o historytest.Options) history.Store {
		return opened(t, Open, config(t.TempDir(), o))
	}, damages...)
}
