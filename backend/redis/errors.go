package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped by a decision's Err when its check got no answer: its server is away, too slow, or refuses
// to count. Whether such a check was counted is unknown; it was at most once.
var ErrUnavailable = errors.New("redis is unavailable")

var (
	errLate       = errors.New("no answer in time")
	errBusy       = errors.New("more checks wait for the server than it can answer in time")
	errMisrouted  = errors.New("the server is part of a cluster and another one owns the key: set the type to cluster")
	errUnreadable = errors.New("the reply is not the script's")
)

// fate is what a reply says about a check that has no answer.
type fate uint8

const (
	failed   fate = iota // it may have run, or never will: it must not be sent again
	again                // it did not run, but may a little later, or elsewhere
	demoted              // the same, and the connection leads to a replica
	unloaded             // it did not run: the server does not know the script
	moved                // it did not run: another server owns its key
	asked                // it did not run: another server owns it, for this once
)

// judge tells the fate of a command that gave err. Only what proves that it did not run allows to send it again: the
// server's own word, or that nothing of it was written. For moved and asked, addr is the server named.
func judge(err error, written bool) (f fate, addr string) {
	var reply goredis.Error
	switch {
	case written && errors.As(err, &reply):
		return judgeText(reply.Error())
	case written, goredis.IsAuthError(err), goredis.IsPermissionError(err):
		return failed, ""
	case goredis.IsReadOnlyError(err):
		return demoted, ""
	}
	return again, ""
}

// judgeText judges a server's error, be it that of a command or one that the script handed on: those may begin with
// a dash.
func judgeText(text string) (f fate, addr string) {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	switch code {
	case "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN":
		return again, ""
	case "READONLY":
		return demoted, ""
	case "NOSCRIPT":
		return unloaded, ""
	case "MOVED":
		f = moved
	case "ASK":
		f = asked
	default:
		return failed, ""
	}
	_, addr, found := strings.Cut(rest, " ") // after the slot
	if !found {
		return failed, ""
	}
	return f, strings.TrimSpace(addr)
}
