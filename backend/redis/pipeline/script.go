package pipeline

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// Script is a Lua script, which servers keep under the name of its content: as a library of Redis Functions, if it has
// one and the server takes it, else as a script. All methods may be called by any number of goroutines.
type Script struct {
	source, sha       string
	library, function string   // "" for none
	modes             sync.Map // of addresses of servers: *CallMode
}

// CallMode is how a script is called on a server.
type CallMode struct {
	Command string // fcall or evalsha
	Name    string // that of the function, or the hash of the script
	// Refused is why the library is not used: the server has no functions, as before Redis 7.0, its user may not use
	// them, or it takes no writes. It is nil if the library is used, or the script has none.
	Refused error
}

// uncallable matches the errors of a server that lacks the function or has no functions, or whose user may not call
// any, as after a failover to a replica with other rights. One that takes no writes refuses a function before it runs,
// while a script runs up to its first write: denied checks and looks have none.
var uncallable = regexp.MustCompile("(?i)^(ERR (Function not found|unknown command ['`]fcall['`])|NOPERM .*'fcall'|" +
	"OOM |NOREPLICAS |MISCONF )")

// Full reports whether the library is not used because the server takes no writes now.
func (m CallMode) Full() bool { return m.Refused != nil && topology.TakesNoWrites(m.Refused) }

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
	if mode, known := s.modes.Load(client.Options().Addr); known {
		return *mode.(*CallMode), nil
	}
	return s.Load(ctx, client)
}

// Load gives a server the script, and returns how it is called there. Its error is the server's.
func (s *Script) Load(ctx context.Context, client *goredis.Client) (mode CallMode, err error) {
	if s.library != "" {
		mode = CallMode{Command: "fcall", Name: s.function}
		err = s.loadLibrary(ctx, client)
	}
	if s.library == "" || noFunctions(err) {
		mode = CallMode{Command: "evalsha", Name: s.sha, Refused: err}
		err = client.ScriptLoad(ctx, s.source).Err()
	}
	if err == nil {
		s.modes.Store(client.Options().Addr, &mode)
	}
	return mode, err
}

// loadLibrary gives a server the library, and calls its function without keys, which changes nothing.
func (s *Script) loadLibrary(ctx context.Context, client *goredis.Client) error {
	// A server closes the connection of a user without a login that sends much; to PING it answers why.
	if err := client.Ping(ctx).Err(); goredis.IsAuthError(err) {
		return err
	}
	err := client.FunctionLoad(ctx, s.library).Err()
	called := client.FCall(ctx, s.function, nil, 0, "").Err()
	if err != nil && !strings.Contains(err.Error(), "already exists") && (called != nil || !topology.Forbidden(err)) {
		return err // unless somebody who may has loaded it
	}
	return called
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
