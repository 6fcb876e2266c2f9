package historyfire

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var fileSteps = []string{"apply: before", "apply: counted", "apply: after", "apply: rolled early", "roll: moved", "roll: after"}

// TestAFileWhoseOwnerIsKilledHoldsEachHitOnce kills the process that has the file, which writes to it and rolls it
// twice at once, again and again. After each death the file is opened and compared, to the integer.
func TestAFileWhoseOwnerIsKilledHoldsEachHitOnce(t *testing.T) {
	t.Parallel()
	for n := range 2 {
		t.Run(fmt.Sprint("file", n), func(t *testing.T) {
			t.Parallel()
			burnFile(t, *kills*55/100/2, uint64(n))
		})
	}
}

func burnFile(t *testing.T, deaths int, n uint64) {
	f := newFire(t, site{Dir: t.TempDir()}, n)
	empty, err := f.site.open(f.board, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	f.fill(empty)
	if err := empty.Close(); err != nil {
		t.Fatal(err)
	}
	for range deaths {
		f.killOne("owner", fileSteps)
		store, err := f.site.open(f.board, func(string) {})
		if err != nil {
			t.Fatalf("-seed %d: a file whose owner was killed does not open: %v", *seed, err)
		}
		f.exact(store)
		f.board.advance(time.Duration(1+f.chance(12)) * time.Hour)
		if err := store.Close(); err != nil || t.Failed() {
			t.Fatalf("closing: %v", err)
		}
	}
	last := f.start("owner", "", 0)
	f.awaitSteps(20)
	f.stop(last)
	store, err := f.site.open(f.board, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f.exact(store)
	if _, err := store.Roll(t.Context(), history.Job{Now: f.board.now().AddDate(1, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	f.exact(store)
	f.report()
}
