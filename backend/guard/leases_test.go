package guard

import (
	"errors"
	"hash/maphash"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
)

// A key that comes back brings its stranded hits along, and keeps them when the store was not asked and it goes again.
func TestAStrandedHitIsKnownThoughItsQuestionIsRefused(t *testing.T) {
	var l leases
	l.init(true, func() int { return 1 })
	check, now := count("k", perMinute(t, 1000), 1), time.Now()
	check.Leases, check.Rate = true, 200
	sh, hash := l.shard(check.Key), maphash.Bytes(l.seed, check.Key)
	sh.former.add(hash, formerKey{stranded: 100, until: now.Add(time.Minute)}, now)
	_, q := l.decide(&check, now, new(backend.Decision))
	if q == nil || q.Stranded != 100 {
		t.Fatalf("the store is asked %+v; want it told of the 100 hits that the key has stranded", q)
	}
	l.learn(&check, &backend.Decision{Err: &backend.Away{Reason: backend.Down, Err: errors.New("gone")}}, q, now)
	if l.makeFormer(sh, "k", sh.keys["k"], now); sh.former[hash].stranded != 100 {
		t.Errorf("%+v is known of the key after that; want the 100 hits, or they are leased once more", sh.former[hash])
	}
}
