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

// Script is a Lua script, which servers keep under the name of its content: as a library of Redis Functions, if it has
// one and the server takes it, else as a script. All methods may be called by any number of goroutines.
type Script struct {
	source, sha       string
	library, function string   // "" for none
	modes             sync.Map // of addresses of servers: CallMode
}

// CallMode is how a script is called on a server.
type CallMode struct {
	Command string // fcall or evalsha
	Name    string // that of the function, or the hash of the script
	// Refused is why the library is not used: the server has no functions, as before Redis 7.0, its user may not use or
	// list them, it takes no writes, or they are foreign. It is nil if the library is used, or the script has none.
	Refused error
	// Foreign is the name of the library of others that has the name or the function of the script's, "" for none.
	Foreign string
	until   time.Time // functions are not used, as they were foreign
}

// DistrustTime is how long functions are not used on a server after a foreign one was found. So a function that is replaced
// and restored again and again is not called, and a large library is not compared often.
const DistrustTime = 10 * time.Minute

// uncallable matches the errors of a server that lacks the function or has no functions, or whose user may not call
// any, as after a failover to a replica with other rights. One that takes no writes refuses a function before it runs,
// while a script runs up to its first write: denied checks and looks have none.
var uncallable = regexp.MustCompile("(?i)^(ERR (Function not found|unknown command ['`]fcall['`])|NOPERM .*'fcall'|" +
	"OOM |NOREPLICAS |MISCONF )")

// TakesNoWrites reports whether the library is not used because the server takes no writes now.
func (m CallMode) TakesNoWrites() bool { return m.Refused != nil && topology.TakesNoWrites(m.Refused) }

// classify is the function Classify for a call of the script in this mode.
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

// WithLibrary adds a library with a function that does the same, named by the content, and returns the script.
func (s *Script) WithLibrary(library, function string) *Script {
	s.library, s.function = library, function
	return s
}

// Mode returns how the script is called on a server. If that is not known, it is that of Load.
func (s *Script) Mode(ctx context.Context, client *goredis.Client) (CallMode, error) {
	if s.library == "" {
		return CallMode{Command: "evalsha", Name: s.sha}, nil
	}
	if mode := s.lastMode(client); mode.Command != "" {
		return mode, nil
	}
	return s.Load(ctx, client)
}

// lastMode returns the mode that Load found last, the zero value for none. A nil script has none.
func (s *Script) lastMode(client *goredis.Client) (mode CallMode) {
	if s != nil {
		last, _ := s.modes.Load(client.Options().Addr)
		mode, _ = last.(CallMode)
	}
	return mode
}

// Load gives a server the script, and returns how it is called there. Its error is the server's.
func (s *Script) Load(ctx context.Context, client *goredis.Client) (mode CallMode, err error) {
	return s.load(ctx, client, time.Now())
}

func (s *Script) load(ctx context.Context, client *goredis.Client, now time.Time) (mode CallMode, err error) {
	last := s.lastMode(client)
	distrusted := now.Before(last.until)
	if s.library != "" && !distrusted {
		mode = CallMode{Command: "fcall", Name: s.function}
		if mode.Foreign, err = s.loadLibrary(ctx, client); mode.Foreign != "" {
			mode.until = now.Add(DistrustTime)
		}
	}
	switch {
	case distrusted:
		mode = last
		err = client.ScriptLoad(ctx, s.source).Err()
	case s.library == "" || mode.Foreign != "" || noFunctions(err):
		mode = CallMode{Command: "evalsha", Name: s.sha, Refused: err, Foreign: mode.Foreign, until: mode.until}
		err = client.ScriptLoad(ctx, s.source).Err()
	}
	if err == nil || mode.Refused != nil { // a refused function is not called, even if the script cannot be loaded
		s.modes.Store(client.Options().Addr, mode)
	}
	return mode, err
}

// loadLibrary gives a server the library, compares it, and calls its function without keys, which changes nothing.
func (s *Script) loadLibrary(ctx context.Context, client *goredis.Client) (foreign string, err error) {
	// A server closes the connection of a user without a login that sends much; to PING it answers why.
	if err := client.Ping(ctx).Err(); goredis.IsAuthError(err) {
		return "", err
	}
	err = client.FunctionLoad(ctx, s.library).Err()
	exists := err == nil || strings.Contains(err.Error(), "already exists")
	if exists || topology.Forbidden(err) { // then somebody else may have loaded it
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

// compareLibrary returns an error if a server's function is not the script's: every user who may load functions may
// replace those of others. It names the foreign library. A server without the function is right.
func (s *Script) compareLibrary(ctx context.Context, client *goredis.Client) (foreign string, err error) {
	isFunction := func(f goredis.Function) bool { return strings.EqualFold(f.Name, s.function) } // as Redis compares them
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

// CompareLibraries compares the script's library on each server that is asked, for five seconds at most, and tells how
// the script is called where it was replaced.
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
	if replaced != nil || mode.Foreign != "" && !now.Before(mode.until) {
		if mode, err := s.load(ctx, p.client, now); err == nil || mode.Foreign != "" {
			report(p.server.Name, mode)
		}
	}
}

// unknownCommand matches the errors of a server that has no functions.
var unknownCommand = regexp.MustCompile(`(?i)unknown (sub)?command`)

// noFunctions reports whether an error says that a server has no functions for a user, or not now.
func noFunctions(err error) bool {
	return err != nil && (topology.Forbidden(err) || unknownCommand.MatchString(err.Error()) || topology.TakesNoWrites(err))
}

// reload gives a server the script anew. An error is one that sending again would not mend.
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
