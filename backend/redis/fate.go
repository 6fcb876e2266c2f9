package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

var errMisrouted = errors.New("the server is part of a cluster and another one owns the key")

// Fate is what a reply proves about a command.
type Fate struct {
	kind kind
	addr string // of the server that a redirect names
}

// Unloaded reports whether the server has to be given the script before the command is sent again.
func (f Fate) Unloaded() bool { return f.kind == unloaded }

// Unready reports whether the server has said that it cannot count now, whatever it is asked.
func (f Fate) Unready() bool { return f.kind == unready || f.kind == demoted }

// Again reports whether it is proven that the command did not run, so that it may be sent again.
func (f Fate) Again() bool { return f.kind != failed && f.kind != further && f.kind != answered }

// Demoted reports whether the connection led to a replica.
func (f Fate) Demoted() bool { return f.kind == demoted }

type kind uint8

const (
	failed   kind = iota // it may have run, or never will: it must not be sent again
	again                // it did not run, but may a little later, or elsewhere
	unready              // the same, and nothing else would: the server loads, or has lost its primary, or a whole cluster is down
	demoted              // the same, and the connection leads to a replica
	unloaded             // it did not run: the server does not know the script, or how it was called
	moved                // it did not run: another server owns its key
	asked                // it did not run: another server owns it, for this once
	further              // it ran, and something else follows it to the same server
	answered             // there is an answer
)

// Further returns the fate of an errand that has more to send, where it has just had an answer.
func Further() Fate { return Fate{kind: further} }

// refusals are the errors by which a server proves that a command did not run.
var refusals = map[string]kind{
	"TRYAGAIN": again, "CLUSTERDOWN": again, "LOADING": unready, "MASTERDOWN": unready, "READONLY": demoted,
	"NOSCRIPT": unloaded, "MOVED": moved, "ASK": asked,
}

// Judge returns the fate of a command that must run at most once and that failed with err. Only what proves that it did
// not run allows to send it again: the server's own word, or that nothing of it was written.
func Judge(err error, written bool) Fate {
	var reply goredis.Error
	switch {
	case written && errors.As(err, &reply):
		return JudgeText(reply.Error())
	case written, goredis.IsAuthError(err), goredis.IsPermissionError(err):
		return Fate{}
	case goredis.IsReadOnlyError(err):
		return Fate{kind: demoted}
	}
	return Fate{kind: again}
}

// judgeSafe is Judge for a command that may run twice: it is sent again if its answer was lost, too.
func judgeSafe(err error) Fate {
	var reply goredis.Error
	switch {
	case !errors.As(err, &reply):
		return Fate{kind: again}
	case strings.Contains(reply.Error(), "-READONLY "): // as a script hands it on before Redis 7
		return Fate{kind: demoted}
	}
	return JudgeText(reply.Error())
}

// JudgeText is Judge for the text of a server's error: that of a command, or one that a script caught and handed on,
// which may begin with a dash.
func JudgeText(text string) Fate {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	f := Fate{kind: refusals[code]}
	if code == "CLUSTERDOWN" && strings.HasPrefix(rest, "The cluster is down") { // and not only the slot of a key
		f.kind = unready
	}
	if f.kind == moved || f.kind == asked {
		_, addr, found := strings.Cut(rest, " ") // after the slot
		if !found {
			return Fate{}
		}
		f.addr = strings.TrimSpace(addr)
	}
	return f
}
