package curves

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// What answers hold is tested through the port that gives them, in server/admin.

// The port refuses these before it asks; a command asks by itself.
func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	h := NewHistory(nil, time.Now) // whose store is not asked
	for _, points := range []int{-1, MaxPoints + 1} {
		_, err := h.Show(t.Context(), Question{Points: points})
		want := fmt.Sprintf("points must be a whole number from 1 to 10000, not \"%d\".", points)
		if refused := Refusal(""); !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%d points gave %v, want the refusal %s", points, err, want)
		}
	}
	for _, rows := range []int{-1, 0, MaxRows + 1} {
		_, err := h.Top(t.Context(), Question{Rows: rows})
		if refused := Refusal(""); !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "n must be a whole number from 1 to 1000, not ") {
			t.Errorf("%d rows gave %v, want a refusal that names the range", rows, err)
		}
	}
}

func TestWarningsOfDamageAreBounded(t *testing.T) {
	var u unreadable
	for n := range 1000 {
		u.leftOut(&history.Series{ID: history.ID{Path: fmt.Sprint(n)}, Err: fmt.Errorf("reason %d", n)})
	}
	all := u.appendTo([]string{"first"})
	if len(all) != maxUnreadable+2 || all[0] != "first" || u.count != 1000 ||
		all[len(all)-1] != "980 more series are left out, as they cannot be read: weir history verify names them." {
		t.Errorf("1000 damaged series give %d warnings, the last %q", len(all), all[len(all)-1])
	}
}
