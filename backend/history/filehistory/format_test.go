package filehistory

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// TestFormatsExampleIsReal replays the example of FORMAT.md and compares the rows, byte by byte, before the job and
// after.
func TestFormatsExampleIsReal(t *testing.T) {
	clock := time.Date(2026, 11, 21, 12, 3, 30, 0, time.UTC)
	s, err := Open(Config{Dir: t.TempDir(), Keep: history.DefaultKeep(), Now: func() time.Time { return clock }})
	s = ready(t, s, err)
	within := history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Within}
	over := history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Over}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Unix() / 60
	for _, i := range []history.Increment{{ID: within, Minute: noon, Hits: 40}, {ID: within, Minute: noon + 1, Hits: 300},
		{ID: within, Minute: noon + 3, Hits: 7}, {ID: over, Minute: noon + 1, Hits: 25}} {
		p := i.ID.Partition()
		at, err := s.Apply(context.Background(), p, history.Batch{Writer: "k3v9"})
		if err != nil {
			t.Fatal(err)
		}
		b := history.Batch{Writer: "k3v9", Seq: at.Last + 1, After: at.Last, Increments: []history.Increment{i}}
		if _, err := s.Apply(context.Background(), p, b); err != nil {
			t.Fatal(err)
		}
	}
	guide, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	compare := func(when string) {
		if dump := s.dump(t); !strings.Contains(string(guide), dump) {
			t.Errorf("FORMAT.md does not show what the file really holds %s:\n%s", when, dump)
		}
	}
	compare("at 12:03:30")
	clock = clock.Add(25 * time.Hour)
	if _, err := s.Roll(context.Background(), history.Job{Now: clock}); err != nil {
		t.Fatal(err)
	}
	compare("after the job of the next day")
}

// dump returns all rows, the parts of their keys apart.
func (s *Store) dump(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	err := s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(rowsBucket).ForEach(func(key, value []byte) error {
			name := fmt.Sprintf("%02x %c ", key[0], key[1])
			switch key[1] {
			case positionRow:
				name += string(key[2:])
			case chunkRow:
				name += fmt.Sprintf("%x %x %x", key[2], key[3:7], key[7:])
			default:
				name += fmt.Sprintf("%x", key[2:])
			}
			fmt.Fprintf(&out, "%-49s  % x\n", name, value)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
