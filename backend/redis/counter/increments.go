package counter

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
)

// increments are the commands of a batch, some for each check: what counts it, or takes back what it counted too much,
// and what sets the TTL. In a cluster a pipeline of them leads to one server, and each has one key.
type increments struct {
	*incremental
	client   *goredis.Client
	asks     []*ask
	steps    []step // of each check's commands
	pool     []*number
	commands []command
}

// step is the commands of one check, nil for those that it does not need now.
type step struct{ count, expire *number }

// number is a command that a number answers, or nothing where there is none.
type number struct{ once }

// shown is that of a command; nothing is an answer, too.
func (n *number) shown() (outcome, error) {
	if n.isNothing() || n.failure() == nil {
		return answered, nil
	}
	return n.once.shown()
}

func (n *number) isNothing() bool { return n.written && errors.Is(n.Err(), goredis.Nil) }

// failure returns why there is no answer. go-redis lets all commands of a pipeline have the error that ended it, also
// those that were answered before.
func (n *number) failure() error {
	switch {
	case n.Val() != nil && n.written:
		return nil
	case n.Err() == nil: // another command went in its place
		return errLate
	}
	return n.Err()
}

// write gives each check the commands that it still needs.
func (f *increments) write(r redis.Route, _ redis.Way, asks []*ask) []command {
	f.client, f.asks, f.steps, f.commands = r.Client, asks, f.steps[:0], f.commands[:0]
	_, getsNo := f.getsNo.Load(r.Client.Options().Addr)
	for _, a := range asks {
		var p step
		switch {
		case !a.counted && a.look && !getsNo:
			p.count = f.next("get", &a.key)
		case !a.counted:
			p.count = f.next("incrby", &a.key, &a.arg)
		case a.back != 0:
			p.count = f.next("incrby", &a.key, a.back)
		}
		if !a.expiring && (a.counted || !a.look || getsNo) {
			p.expire = f.next("expire", &a.key, &a.ttl)
		}
		f.steps = append(f.steps, p)
	}
	return f.commands
}

// next returns another command.
func (f *increments) next(args ...any) *number {
	n := len(f.commands)
	if n == len(f.pool) {
		f.pool = append(f.pool, &number{newOnce("incrby")})
	}
	f.pool[n].reset(args...)
	f.commands = append(f.commands, f.pool[n])
	return f.pool[n]
}

// read notes how far a check has come. One that is counted and needs something more goes on.
func (f *increments) read(i int) (fate redis.Fate, written bool, err error) {
	a, p := f.asks[i], f.steps[i]
	switch {
	case p.count == nil:
	case a.counted:
		fate, err = f.readBack(a, p.count)
	default:
		if fate, err = f.readCount(a, p.count); err != nil {
			return fate, p.count.written, err
		}
	}
	if p.expire != nil {
		if also, failed := f.readExpire(a, p.expire); failed != nil {
			fate, err = also, failed
		}
	}
	if err == nil && (a.back != 0 || !a.expiring) {
		return redis.Further(), true, errUnfinished
	}
	return fate, true, err
}

var errUnfinished = errors.New("counted, and not finished")

// readCount reads what counts a check, or looks at its key.
func (f *increments) readCount(a *ask, n *number) (redis.Fate, error) {
	looked := n.args[0] == "get"
	err := n.failure()
	switch {
	case n.isNothing(): // the key is not there
		a.counted, a.expiring = true, true
		return redis.Fate{}, nil
	case err != nil && n.written && overflow(err): // nothing was counted where no more can be
		a.counted, a.left = true, math.MaxInt64
		if a.by < 0 {
			a.left = math.MinInt64
		}
		return redis.Fate{}, nil
	case err != nil && looked && n.written && goredis.IsPermissionError(err):
		f.getsNo.Store(f.client.Options().Addr, true)
		f.tell(looksByCounting, "GET", err)
		return redis.Further(), err
	case err != nil:
		if n.written && redis.Forbidden(err) {
			f.tell("redis server cannot count", "INCRBY", err)
		}
		return redis.Judge(err, n.written), err
	}
	if a.left, err = number64(n.Val()); err != nil {
		return redis.Fate{}, errNoNumber
	}
	a.counted = true
	if looked {
		a.expiring = true
	}
	a.back = incr.Back(a.by, a.left)
	return redis.Fate{}, nil
}

// number64 reads what INCRBY or GET answered.
func number64(value any) (int64, error) {
	if n, ok := value.(int64); ok {
		return n, nil
	}
	return strconv.ParseInt(fmt.Sprint(value), 10, 64)
}

const looksByCounting = "redis server refuses GET: a look at a counter counts nothing instead, which makes a key"

// overflow reports whether a server says that a number would be too large for it.
func overflow(err error) bool { return strings.Contains(err.Error(), "would overflow") }

var errNoNumber = errors.New("the key does not hold a number: somebody else uses it")

// readBack reads what takes back what a check counted too much. It is given up where it may have run.
func (f *increments) readBack(a *ask, n *number) (redis.Fate, error) {
	err := n.failure()
	if err != nil {
		if fate := redis.Judge(err, n.written); fate.Again() {
			return fate, err
		}
	}
	a.back = 0
	return redis.Fate{}, nil
}

// readExpire reads what gave a key its TTL, which may run twice: it is sent again if its answer was lost, too. A server
// that refuses it keeps the key, which the check does not suffer for.
func (f *increments) readExpire(a *ask, n *number) (redis.Fate, error) {
	if err := n.failure(); err != nil {
		var reply goredis.Error
		refused := n.written && errors.As(err, &reply)
		if fate := redis.Judge(err, refused); !refused || fate.Again() {
			return fate, err
		}
		f.tell("redis server keeps counters for ever", "EXPIRE", err)
	}
	a.expiring = true
	return redis.Fate{}, nil
}

// tell logs once what a server refuses, and the remedy.
func (f *increments) tell(what, command string, err error) {
	s := f.store
	if name := s.servers.NameOf(f.client); s.news(command+" of "+name, err.Error()) {
		s.servers.Log().Warn(what, "server", name, "error", s.servers.DiagnoseOf(f.client, command, err))
	}
}

func (f *increments) release() {
	f.client, f.asks = nil, nil
	for _, n := range f.pool {
		n.release()
	}
}
