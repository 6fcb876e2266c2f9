package redistest

import (
	"slices"
	"strings"
)

// Direction says which half of a connection a fault is for.
type Direction int

// The directions.
const (
	Requests Direction = iota // from clients to Redis
	Replies                   // from Redis to clients
)

// Action is what a trap does with the request that springs it, and with its connection.
type Action int

// The actions. The first two end before Redis hears of the request, the others after it has executed it.
const (
	ResetBefore  Action = iota // the request is not forwarded; the connection is reset
	CloseBefore                // the request is not forwarded; the connection is closed
	SwallowReply               // nothing comes back any more, and the connection stays open
	ResetAfter                 // in place of the reply, the connection is reset
	CloseAfter                 // in place of the reply, the connection is closed
)

// faults are the faults that a proxy has now.
type faults struct {
	drop  [2]bool
	spoil int // one of so many bytes of replies, drawn by chance; 0: none
	traps []trap
}

type trap struct {
	command string // any if empty
	action  Action
	sprung  chan struct{}
}

// Drop loses what goes in a direction from now on, and the news that the sender has closed. A connection that has lost
// something stays mute in that direction also after Heal: going on in the middle would forge answers.
func (p *FaultProxy) Drop(dir Direction) { p.change(func(f *faults) { f.drop[dir] = true }) }

// Spoil changes one of so many bytes of replies, drawn by chance, to one that no reply has.
func (p *FaultProxy) Spoil(oneOf int) { p.change(func(f *faults) { f.spoil = oneOf }) }

// Trap waits for the next request of a command, such as EVALSHA, or of any if command is empty, and acts on it once.
// The channel is closed when it has: after SwallowReply, ResetAfter and CloseAfter, Redis has then executed the
// request. A pipeline that holds the request goes the same way as a whole, but for what was written before it.
func (p *FaultProxy) Trap(command string, action Action) <-chan struct{} {
	sprung := make(chan struct{})
	p.change(func(f *faults) {
		f.traps = append(f.traps, trap{strings.ToUpper(command), action, sprung})
	})
	return sprung
}

// Heal ends all faults, but Refuse, which Accept ends, and for connections that are mute.
func (p *FaultProxy) Heal() { p.change(func(f *faults) { *f = faults{} }) }

func (p *FaultProxy) change(do func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do(&p.faults)
}

// spring takes out the first trap for one of the commands.
func (f *faults) spring(commands []string) (trap, bool) {
	at := slices.IndexFunc(f.traps, func(t trap) bool {
		return t.command == "" && len(commands) > 0 || slices.Contains(commands, t.command)
	})
	if at < 0 {
		return trap{}, false
	}
	t := f.traps[at]
	f.traps = slices.Delete(f.traps, at, at+1)
	return t, true
}
