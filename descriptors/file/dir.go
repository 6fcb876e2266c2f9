// Package file reads the configuration from a directory and reads it again when the directory changes.
//
// Every regular file below the directory is read, whatever its name; symbolic links are followed, and names that begin
// with a dot are left out. That suits a ConfigMap mount, which swaps a hidden link, as well as a plain directory.
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

const (
	// interval is how often the directory is looked at. A change is loaded once two looks running see the same, so it
	// is in force about one second after its last byte.
	interval = 500 * time.Millisecond
	// restless is how many looks a directory may keep changing before it is loaded, so that a change is in force within
	// two seconds even if others follow it. While a file is being written, and so is only partly there, it is patience.
	restless, patience = 2, 20
	// attempts is how often a restless directory is read in one look, until nothing changes meanwhile.
	attempts = 5
)

var _ descriptors.Source = (*Dir)(nil)

// Dir is a directory of configuration files.
type Dir struct {
	// OnError, if set, is called by Run for each change that was not put in force, or only in part, with the reason and
	// after apply. Set it before Run.
	OnError func(error)

	path   string
	log    *slog.Logger
	loaded bool       // Run has put a configuration in force
	held   *yaml.Held // what that was made of
}

// New makes a source of the directory at path. It reads nothing yet.
func New(path string, o yaml.Options, log *slog.Logger) *Dir {
	return &Dir{path: path, log: log, held: yaml.NewHeld(o)}
}

// Load reads a directory once, as Run does at its start: the config has the domains whose files are right, and knows
// the others as broken. It is nil if there is no such domain. Problems name files relative to the directory. The error
// says why the directory itself cannot be used.
func Load(path string, o yaml.Options) (*descriptors.Config, yaml.Problems, error) {
	s := scan(path)
	files, problems := s.read(path)
	renewed := New(path, o, nil).renew(s, files, problems)
	return renewed.Config, renewed.Problems, s.err
}

// Run implements [descriptors.Source]. It loads the directory at once, then after each change. What is wrong is
// logged, once and one line a problem, and breaks no more than [yaml.Held.Renew] says. A directory that is
// missing or empty is waited for, and leaves the last good configuration in force.
func (d *Dir) Run(ctx context.Context, apply func(*descriptors.Config) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var tried snapshot // what was last loaded, in force or not; the zero snapshot is like no other
	last, waited := scan(d.path), 0
	if d.load(&last, apply, restless) {
		tried = last
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := scan(d.path)
		switch {
		case now.same(tried):
			waited = 0
		case (now.same(last) || waited >= now.patience(last)) && d.load(&now, apply, waited):
			tried, waited = now, 0
		default:
			waited++
		}
		last = now
	}
}

// load tries what s lists, after the directory has been waited for during so many looks. It reports false, and has done
// nothing, if the directory changed while it was read. Where it reads again, s becomes what it has read.
func (d *Dir) load(s *snapshot, apply func(*descriptors.Config) error, waited int) bool {
	files, problems, whole := s.readWhole(d.path, waited)
	if !whole {
		return false
	}
	renewed := d.renew(*s, files, problems)
	config, err := renewed.Config, cmp.Or(s.err, d.tell(renewed.Problems))
	if config != nil {
		if refused := apply(config); refused != nil {
			config, err = nil, errors.Join(refused, err)
		}
	}
	if config != nil {
		d.loaded, d.held = true, renewed.Held
		d.log.Info("configuration loaded", "dir", d.path, "files", len(s.files), "domains", config.Domains(),
			"rules", len(config.Rules()))
	}
	if err != nil {
		d.complain(err, config, renewed)
	}
	return true
}

// renew parses what was read of s, beside what is held.
func (d *Dir) renew(s snapshot, files []yaml.File, problems yaml.Problems) yaml.Renewal {
	if s.err != nil {
		return yaml.Renewal{Held: d.held}
	}
	var unreadable []string
	for _, p := range problems {
		unreadable = append(unreadable, p.File)
	}
	renewed := d.held.Renew(files, unreadable)
	renewed.Problems = append(problems, renewed.Problems...)
	return renewed
}

// complain logs what was not put in force, and what is instead. The config is nil if nothing new is in force.
func (d *Dir) complain(err error, config *descriptors.Config, renewed yaml.Renewal) {
	message, inForce := "configuration not loaded", "none yet"
	switch {
	case config != nil:
		message, inForce = "configuration loaded only in part", "what has no errors"
	case d.loaded:
		inForce = "the last good one"
	}
	told := []any{"dir", d.path, "error", err, "in_force", inForce}
	if domains := renewed.Told(); domains != "" {
		told = append(told, "domains", domains)
	}
	d.log.Error(message, told...)
	if d.OnError != nil {
		d.OnError(err)
	}
}

// tell logs each problem. The error that it returns counts those that are not warnings and repeats the first.
func (d *Dir) tell(problems yaml.Problems) error {
	var wrong []error
	for _, p := range problems {
		if p.Warning {
			d.log.Warn("configuration problem", "problem", p)
		} else {
			d.log.Error("configuration problem", "problem", p)
			wrong = append(wrong, p)
		}
	}
	if len(wrong) > 1 {
		return fmt.Errorf("%d errors, the first: %w", len(wrong), wrong[0])
	}
	return errors.Join(wrong...)
}
