package pipeline

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Class is what a reply proves about a command.
type Class struct {
	kind kind
	addr string // of the server that a redirect names
}

type kind uint8

const (
	classFinal      kind = iota // it may have run, or never will: it must not be sent again
	classRetryable              // it did not run, but may a little later, or elsewhere
	classLoading                // no command runs: the server loads or lost its primary, or the cluster is down
	classReadOnly               // no command that writes runs: the connection leads to a replica
	classNoScript               // it did not run: the server does not know the script, or how it was called
	classMoved                  // it did not run: another server owns its key
	classAsk                    // it did not run: another server owns its key, for this once
	classUnfinished             // it ran, and the request has more to send to the same server
	classAnswered               // there is an answer
)

// The classes of requests that must not be sent again, that have an answer, and that have one and must send more.
var (
	Final      = Class{kind: classFinal}
	Answered   = Class{kind: classAnswered}
	Unfinished = Class{kind: classUnfinished}
)

// loading reports whether the server has said that it cannot count now, whatever it is asked.
func (c Class) loading() bool { return c.kind == classLoading || c.kind == classReadOnly }

// Retryable reports whether it is proven that the command did not run, so that it may be sent again.
func (c Class) Retryable() bool { return c.kind >= classRetryable && c.kind <= classAsk }

// provesNotRun are the errors by which a server proves that a command did not run.
var provesNotRun = map[string]kind{
	"TRYAGAIN": classRetryable, "CLUSTERDOWN": classRetryable, "LOADING": classLoading, "MASTERDOWN": classLoading,
	"READONLY": classReadOnly, "NOSCRIPT": classNoScript, "MOVED": classMoved, "ASK": classAsk,
}

// Classify returns the class of a command that must run at most once and that failed with err. Only what proves that it
// did not run allows to send it again: the server's own word, or that nothing of it was written.
func Classify(err error, written bool) Class {
	var reply goredis.Error
	switch {
	case written && errors.As(err, &reply):
		return classifyText(reply.Error())
	case written, goredis.IsAuthError(err), goredis.IsPermissionError(err):
		return Final
	case goredis.IsReadOnlyError(err):
		return Class{kind: classReadOnly}
	}
	return Class{kind: classRetryable}
}

// classifyRepeatable is Classify for a command that may run twice: it is sent again if its answer was lost, too.
func classifyRepeatable(err error) Class {
	var reply goredis.Error
	switch {
	case !errors.As(err, &reply):
		return Class{kind: classRetryable}
	case strings.Contains(reply.Error(), "-READONLY "): // as a script hands it on before Redis 7
		return Class{kind: classReadOnly}
	}
	return classifyText(reply.Error())
}

// classifyText is Classify for the text of a server's error, or of one that a script caught, which may begin with a
// dash.
func classifyText(text string) Class {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	c := Class{kind: provesNotRun[code]}
	switch {
	case code == "CLUSTERDOWN" && strings.HasPrefix(rest, "The cluster is down"): // and not only the slot of a key
		c.kind = classLoading
	case c.kind == classMoved, c.kind == classAsk:
		_, addr, found := strings.Cut(rest, " ") // after the slot
		if !found {
			return Final
		}
		c.addr = strings.TrimSpace(addr)
	}
	return c
}
