package guard

import (
	"errors"
	"hash/maphash"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
)

// A key that comes back takes what it owes along. It owes that still when the store was not asked, and it goes again.
func TestAKeyOwesOnThoughItsQuestionIsRefused(t *testing.T) {
	var l leases
	l.init(true, func() int { return 1 })
	check, now := count("k", perMinute(t, 1000), 1), time.Now()
	check.Leases, check.Rate = true, 200
	sh, hash := l.shard(check.Key), maphash.Bytes(l.seed, check.Key)
	sh.owed.note(hash, debt{hits: 100, until: now.Add(time.Minute)}, now)
	_, q := l.ask(&check, now, new(backend.Decision))
	if q == nil || q.Left != 100 {
		t.Fatalf("the store is asked %+v; want it told of the 100 hits that the key has left behind", q)
	}
	l.answered(&check, &backend.Decision{Err: &backend.Away{Reason: backend.Down, Err: errors.New("gone")}}, q, now)
	if l.noteOwed(sh, "k", sh.known["k"], now); sh.owed[hash].hits != 100 {
		t.Errorf("%+v is owed after that; want the 100 hits, or they are leased once more", sh.owed[hash])
	}
}
