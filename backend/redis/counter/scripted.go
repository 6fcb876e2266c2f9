package counter

import (
	"errors"
	"strings"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
)

// scripted counts by a script, which is asked in a language.
type scripted struct {
	store *Store
	language
}

// language is what the script is asked, and what it answers.
type language struct {
	appendKey func(dst, key []byte) []byte
	appendArg func(dst []byte, c *backend.Check) []byte
	decode    func(reply string, c *backend.Check) (backend.Decision, error)
}

// put writes a check's key and question.
func (s scripted) put(text []byte, c *backend.Check, a *ask) []byte {
	text, a.key = cut(s.appendKey(text, c.Key), len(text))
	text, a.arg = cut(s.appendArg(text, c), len(text))
	return text
}

// decide reads the answer to a check.
func (s scripted) decide(a *ask, c *backend.Check) (backend.Decision, error) {
	return s.decode(a.reply, c)
}

func (s scripted) form() form { return &scriptForm{store: s.store} }

// scriptForm is calls of the script, each for as many checks as go into one.
type scriptForm struct {
	store    *Store
	asks     []*ask
	size     int // how many checks go into a call
	calls    []*scriptCall
	commands []command
}

// write makes one call for all checks, which ran for none of them if it fails as a whole; in a cluster, where their keys
// are in different slots, one for each.
func (f *scriptForm) write(_ redis.Route, way redis.Way, asks []*ask) []command {
	f.asks, f.size, f.commands = asks, len(asks), f.commands[:0]
	if f.store.servers.Redirect() {
		f.size = 1
	}
	for n := 0; n*f.size < len(asks); n++ {
		if n == len(f.calls) {
			f.calls = append(f.calls, newScriptCall())
		}
		f.calls[n].set(way, f.store.now(), asks[n*f.size:(n+1)*f.size]...)
		f.commands = append(f.commands, f.calls[n])
	}
	return f.commands
}

// read reads an item of a reply.
func (f *scriptForm) read(i int) (redis.Fate, bool, error) {
	e := f.calls[i/f.size]
	fate, err := f.readItem(f.asks[i], e, i%f.size)
	return fate, e.written, err
}

// readItem returns what the i-th item of a reply is to a check: its fate and why, where it is no answer.
func (f *scriptForm) readItem(a *ask, e *scriptCall, i int) (redis.Fate, error) {
	switch err := e.Err(); {
	case err != nil:
		fate := e.way.Judge(err, e.written)
		if fate.Unloaded() { // the way may change, which a probe tells
			f.store.health.Heard(false)
		}
		return fate, err
	case !e.written: // making a connection took too long
		return redis.Judge(errLate, false), errLate
	}
	text, ok := e.item(i)
	switch {
	case !ok:
		return redis.Fate{}, errUnreadable
	case strings.HasPrefix(text, "!"): // what went wrong with a check that was not counted
		return redis.JudgeText(text[1:]), said{errors.New(text[1:])}
	}
	a.reply = text
	return redis.Fate{}, nil
}

func (f *scriptForm) release() {
	f.asks = nil
	for _, e := range f.calls {
		e.release()
	}
}
