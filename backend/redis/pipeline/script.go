package pipeline

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// Script is a Lua script, which servers store under a hash of its content: as a library of Redis Functions, if the
// script has one and the server accepts it, else as a script. All methods may be called by any number of goroutines.
type Script struct {
	source, sha       string
	library, function string   // "" for none
	modes             sync.Map // by address of a server, its CallMode
}

// CallMode is how a script is called on a server.
type CallMode struct {
	Command string // "fcall" or "evalsha"
	Name    string // the name of the function, or the hash of the script
	// Refused is why the library is not used: the server has no functions (before Redis 7.0), its user may not use or list
	// them, it takes no writes, or they are foreign. It is nil if the library is used, or if the script has none.
	Refused error
	// Foreign is the name of a library that is not weir's but has the name or the function of weir's, "" for none.
	Foreign string
	retryAt time.Time // functions are not used before, as they were foreign
}

// DistrustTime is how long functions are not used on a server after a foreign one was found, so that one that is
// replaced and restored again and again is not called, and a large library is not compared often.
const DistrustTime = 10 * time.Minute

// uncallable matches the errors of a server that lacks the function, has no functions, or whose user may not call any,
// as after a failover to a replica with other rights. A server that takes no writes refuses a function before it runs,
// but runs a script up to its first write, which denied checks and looks do not reach.
var uncallable = regexp.MustCompile("(?i)^(ERR (Function not found|unknown command ['`]fcall['`])|NOPERM .*'fcall'|" +
	"OOM |NOREPLICAS |MISCONF )")

// TakesNoWrites reports whether the library is not used because the server takes no writes now.
func (m CallMode) TakesNoWrites() bool { return m.Refused != nil && topology.TakesNoWrites(m.Refused) }

// classify is Classify for a call of the script in this mode.
func (m CallMode) classify(err error, written bool) Class {
	var reply goredis.Error
	if m.Command == "fcall" && written && errors.As(err, &reply) && uncallable.MatchString(reply.Error()) {
		return Class{kind: classNoScript}
	}
	return Classify(err, written)
}

// NewScript makes a script of its source.
func NewScript(source string) *Script {
	return &Script{source: source, sha: fmt.Sprintf("%x", sha1.Sum([]byte(source)))}
}

// WithLibrary adds a library whose function does the same as the script, and returns the script. Both have names that
// depend on their content.
func (s *Script) WithLibrary(library, function string) *Script {
	s.library, s.function = library, function
	return s
}

// Mode returns how the script is called on a server. It calls Load if that is not known.
func (s *Script) Mode(ctx context.Context, client *goredis.Client) (CallMode, error) {
	if s.library == "" {
		return CallMode{Command: "evalsha", Name: s.sha}, nil
	}
	if mode := s.lastMode(client); mode.Command != "" {
		return mode, nil
	}
	return s.Load(ctx, client)
}

// lastMode returns the mode that Load found last, the zero value for none. The script may be nil.
func (s *Script) lastMode(client *goredis.Client) (mode CallMode) {
	if s != nil {
		last, _ := s.modes.Load(client.Options().Addr)
		mode, _ = last.(CallMode)
	}
	return mode
}

// Load loads the script into a server, and returns how it is called there. Its error is the server's.
func (s *Script) Load(ctx context.Context, client *goredis.Client) (mode CallMode, err error) {
	return s.load(ctx, client, time.Now())
}

func (s *Script) load(ctx context.Context, client *goredis.Client, now time.Time) (mode CallMode, err error) {
	last := s.lastMode(client)
	distrusted := now.Before(last.retryAt)
	if s.library != "" && !distrusted {
		mode = CallMode{Command: "fcall", Name: s.function}
		if mode.Foreign, err = s.loadLibrary(ctx, client); mode.Foreign != "" {
			mode.retryAt = now.Add(DistrustTime)
		}
	}
	switch {
	case distrusted:
		mode = last
		err = client.ScriptLoad(ctx, s.source).Err()
	case s.library == "" || mode.Foreign != "" || noFunctions(err):
		mode = CallMode{Command: "evalsha", Name: s.sha, Refused: err, Foreign: mode.Foreign, retryAt: mode.retryAt}
		err = client.ScriptLoad(ctx, s.source).Err()
	}
	if err == nil || mode.Refused != nil { // a refused function is not called, even if the script cannot be loaded
		s.modes.Store(client.Options().Addr, mode)
	}
	return mode, err
}

// loadLibrary loads the library into a server, compares it, and calls its function without keys, which changes nothing.
func (s *Script) loadLibrary(ctx context.Context, client *goredis.Client) (foreign string, err error) {
	// A server closes the connection of a client that sends much without a login. It answers a PING with the reason.
	if err := client.Ping(ctx).Err(); goredis.IsAuthError(err) {
		return "", err
	}
	err = client.FunctionLoad(ctx, s.library).Err()
	exists := err == nil || strings.Contains(err.Error(), "already exists")
	if exists || topology.Forbidden(err) { // if forbidden, another user may have loaded it
		if foreign, differs := s.compareLibrary(ctx, client); differs != nil {
			return foreign, differs
		}
		if called := client.FCall(ctx, s.function, nil, 0, "").Err(); called == nil || exists {
			return "", called
		}
	}
	return "", err
}

var errForeign = errors.New("the library is not weir's")

// compareLibrary returns the name of a foreign library, and an error, if a server's function is not the script's: every
// user who may load functions may replace those of others. It returns no error if the server lacks the function.
func (s *Script) compareLibrary(ctx context.Context, client *goredis.Client) (foreign string, err error) {
	isFunction := func(f goredis.Function) bool { return strings.EqualFold(f.Name, s.function) } // as Redis compares names
	for _, query := range []goredis.FunctionListQuery{{LibraryNamePattern: s.function, WithCode: true}, {}} {
		libraries, err := client.FunctionList(ctx, query).Result()
		if err != nil && (ctx.Err() != nil || topology.Forbidden(err)) {
			return "", err
		} else if err != nil { // a foreign library may be too large to be read
			return s.function, fmt.Errorf("comparing the library: %w", err)
		}
		for _, l := range libraries {
			if l.Name == s.function && l.Code == s.library {
				return "", nil
			} else if l.Name == s.function || slices.ContainsFunc(l.Functions, isFunction) {
				return l.Name, errForeign
			}
		}
	}
	return "", nil
}

// CompareLibraries compares the script's library on each server in use, for five seconds at most. It calls report with
// the new call mode of each server on which the library was replaced.
func (p *Pipeline) CompareLibraries(ctx context.Context, now time.Time, report func(server string, mode CallMode)) {
	ctx, cancel := context.WithTimeout(ctx, repeatTimeout)
	defer cancel()
	var running sync.WaitGroup
	for _, one := range p.peers.Range {
		running.Go(func() { one.(*peer).compareLibrary(ctx, now, report) })
	}
	running.Wait()
}

func (p *peer) compareLibrary(ctx context.Context, now time.Time, report func(server string, mode CallMode)) {
	s, replaced := p.pipeline.script, error(nil)
	mode := s.lastMode(p.client)
	if mode.Command == "fcall" && p.server.Away() == nil {
		_, replaced = s.compareLibrary(ctx, p.client)
	}
	if replaced != nil || mode.Foreign != "" && !now.Before(mode.retryAt) {
		if mode, err := s.load(ctx, p.client, now); err == nil || mode.Foreign != "" {
			report(p.server.Name, mode)
		}
	}
}

// unknownCommand matches the errors of a server that has no functions.
var unknownCommand = regexp.MustCompile(`(?i)unknown (sub)?command`)

// noFunctions reports whether an error says that a server has no functions, that its user may not use them, or that it
// takes no writes now.
func noFunctions(err error) bool {
	return err != nil && (topology.Forbidden(err) || unknownCommand.MatchString(err.Error()) || topology.TakesNoWrites(err))
}

// reload loads the script into a server again. It returns only errors that a retry would not mend.
func (s *Script) reload(ctx context.Context, client *goredis.Client) error {
	mode, err := s.Load(ctx, client)
	if err == nil {
		return nil
	}
	switch mode.classify(err, true).kind {
	case classFinal:
		return fmt.Errorf("loading the script: %w", err)
	case classReadOnly: // a replica takes no library
		topology.Disconnect(ctx, client)
	}
	return nil
}
