package query

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend/history"
)

// What answers hold is tested through the port that gives them, in server/admin.

func TestWarningsOfDamageAreBounded(t *testing.T) {
	var u Unreadable
	for n := range 1000 {
		u.Add(&history.Series{ID: history.ID{Path: fmt.Sprint(n)}, Err: fmt.Errorf("reason %d", n)})
	}
	all := u.Warnings()
	if len(all) != maxUnreadable+1 || u.Count != 1000 ||
		all[len(all)-1] != "980 more series are left out, as they cannot be read: weir history verify names them." {
		t.Errorf("1000 damaged series give %d warnings, the last %q", len(all), all[len(all)-1])
	}
}
