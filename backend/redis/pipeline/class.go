package pipeline

import (
	"context"
	"errors"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Class says what a reply or an error proves about a command: whether it ran, and whether it may be sent again.
type Class struct {
	kind kind
	addr string // the target of a redirect

	// Set by Classify only:

	Outcome outbound.Outcome    // the outcome of the exchange for the server's breaker
	Reason  backend.Reason      // why the check has no answer
	State   backend.ServerState // the state of the server, if this is the result of its probe
}

type kind uint8

const (
	classFinal     kind = iota // it may have run, or will never run: it must not be sent again
	classRetryable             // it did not run, but may a little later, or elsewhere
	classLoading               // no command runs: the server loads or lost its primary, or the cluster is down
	classReadOnly              // no command that writes runs: the connection leads to a replica
	classNoScript              // it did not run: the server does not know the script, or how it was called
	classMoved                 // it did not run: another server owns its key
	classAsk                   // it did not run: another server has its key, for this command only
	classContinue              // it ran, and the request has more to send to the same server
	classAnswered              // there is an answer
)

// The classes of requests that must not be sent again, that have an answer, and that are counted but must send more.
var (
	Final    = Class{kind: classFinal}
	Answered = Class{kind: classAnswered}
	Continue = Class{kind: classContinue}
)

// notReady reports whether the server has said that it cannot count any key now.
func (c Class) notReady() bool { return c.kind == classLoading || c.kind == classReadOnly }

// Retryable reports whether it is proven that the command did not run, so that it may be sent again.
func (c Class) Retryable() bool { return c.kind >= classRetryable && c.kind <= classAsk }

// provesNotRun has the error codes that prove that a command did not run.
var provesNotRun = map[string]kind{
	"TRYAGAIN": classRetryable, "CLUSTERDOWN": classRetryable, "LOADING": classLoading, "MASTERDOWN": classLoading,
	"READONLY": classReadOnly, "NOSCRIPT": classNoScript, "MOVED": classMoved, "ASK": classAsk,
}

// Classify returns the class of a command that must run at most once and failed with err. It is retryable only if it
// provably did not run: the server said so, or nothing of it was written.
func Classify(err error, written bool) (c Class) {
	if err == nil { // first, because errors.As allocates
		return Class{kind: classAnswered, Outcome: outbound.Answered, State: backend.ServerUp}
	}
	var reply goredis.Error
	isReply := errors.As(err, &reply)
	c = Class{Reason: backend.Late, State: backend.ServerAway}
	if isReply {
		c = classifyText(reply.Error())
		c.Reason, c.State = backend.Refused, backend.ServerFailing
	}
	if topology.NoPrimary(err) || errors.Is(err, topology.ErrNoOwner) {
		c.Reason = backend.Down
	}
	c.Outcome = c.outcome(err, isReply, written)
	switch {
	case written && isReply:
	case written, goredis.IsAuthError(err), goredis.IsPermissionError(err):
		c.kind = classFinal
	case goredis.IsReadOnlyError(err):
		c.kind = classReadOnly
	default:
		c.kind = classRetryable
	}
	return c
}

// outcome returns the outcome of an exchange that ended with err. If err is a reply, c is its class.
func (c Class) outcome(err error, isReply, written bool) outbound.Outcome {
	var network net.Error
	switch {
	case topology.NoPrimary(err):
		return outbound.Unreachable
	case isReply && c.notReady():
		return outbound.Loading
	case isReply:
		return outbound.Answered
	case errors.Is(err, outbound.ErrLate), // a new connection came too late for its callers; replies need not
		errors.Is(err, goredis.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrPoolTimeout):
		return outbound.Unknown // the fault is this process's
	case written, errors.As(err, &network) && network.Timeout():
		return outbound.Lost
	}
	return outbound.Unreachable
}

// classifyText is Classify for the text of a server's error, or of one that a script caught, which may begin with a
// dash.
func classifyText(text string) Class {
	code, rest, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	c := Class{kind: provesNotRun[code]}
	switch {
	case strings.Contains(text, " -READONLY "): // as a script passes it on before Redis 7
		c.kind = classReadOnly
	case code == "CLUSTERDOWN" && strings.HasPrefix(rest, "The cluster is down"): // unlike "Hash slot not served"
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
