package query

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend/history"
)

// What answers hold is tested through the port that gives them, in server/admin.

func TestDamageIsToldInOneSentence(t *testing.T) {
	var u Unreadable
	for n := range 1000 {
		u.Add(&history.Series{ID: history.ID{Domain: "shop", Path: "user"}, Err: fmt.Errorf("reason %d", n)})
	}
	const want = "[shop user within is left out, as it cannot be read: reason 0; 1000 are left out in all (weir history verify names what is damaged)]"
	if got := fmt.Sprint(u.Warnings()); got != want || u.Count != 1000 {
		t.Errorf("1000 damaged series give %s, want %s", got, want)
	}
}
