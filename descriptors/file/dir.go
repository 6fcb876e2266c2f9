// Package file reads the configuration from a directory and reads it again when the directory changes.
//
// Every regular file below the directory is read, whatever its name; symbolic links are followed, and names that begin
// with a dot are left out. That suits a ConfigMap mount, which swaps a hidden link, as well as a plain directory.
package file

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

const (
	// interval is how often the directory is looked at. A change is loaded once two looks running see the same, so it
	// is in force about one second after its last byte.
	interval = 500 * time.Millisecond
	// patience is how many looks a directory may keep changing before it is loaded as it is.
	patience = 20
)

var _ descriptors.Source = (*Dir)(nil)

// Dir is a directory of configuration files.
type Dir struct {
	// OnError, if set, is called by Run for each change that was not put in force, with the reason. Set it before Run.
	OnError func(error)

	path    string
	options descriptors.Options
	log     *slog.Logger
	loaded  bool // Run has put a configuration in force
}

// New makes a source of the directory at path. It reads nothing yet.
func New(path string, o descriptors.Options, log *slog.Logger) *Dir {
	return &Dir{path: path, options: o, log: log}
}

// Load reads a directory once. Problems name files relative to it. The error says why the directory itself cannot be
// used; the config is nil if there is an error, or a problem that is not a warning.
func Load(path string, o descriptors.Options) (*descriptors.Config, descriptors.Problems, error) {
	return load(scan(path), path, o)
}

// Run implements [descriptors.Source]. It loads the directory at once, then after each change. A change that is wrong
// is logged, once and one line a problem, and leaves the last good configuration in force. A directory that is missing
// is waited for.
func (d *Dir) Run(ctx context.Context, apply func(*descriptors.Config) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var tried snapshot // what was last loaded, in force or not; the zero snapshot is like no other
	last, waited := scan(d.path), 0
	if d.load(last, apply, false) {
		tried = last
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := scan(d.path)
		impatient := waited >= patience
		switch {
		case now.same(tried):
			waited = 0
		case (impatient || now.same(last)) && d.load(now, apply, impatient):
			tried, waited = now, 0
		default:
			waited++
		}
		last = now
	}
}

// load tries what s lists. It says false, and has done nothing, if the directory changed meanwhile, unless it is to be
// tried anyway.
func (d *Dir) load(s snapshot, apply func(*descriptors.Config) error, anyway bool) bool {
	config, problems, err := load(s, d.path, d.options)
	if !anyway && !scan(d.path).same(s) {
		return false
	}
	if err == nil {
		err = d.tell(problems)
	}
	if err == nil {
		err = apply(config)
	}
	if err == nil {
		d.loaded = true
		d.log.Info("configuration loaded", "dir", d.path, "files", len(s.files), "domains", config.Domains(),
			"rules", len(config.Rules()))
		return true
	}
	inForce := "none yet"
	if d.loaded {
		inForce = "the last good one"
	}
	d.log.Error("configuration not loaded", "dir", d.path, "error", err, "in_force", inForce)
	if d.OnError != nil {
		d.OnError(err)
	}
	return true
}

// tell logs each problem. Its error counts those that are not warnings and repeats the first.
func (d *Dir) tell(problems descriptors.Problems) error {
	var first error
	wrong := 0
	for _, p := range problems {
		if p.Warning {
			d.log.Warn("configuration problem", "problem", p)
			continue
		}
		d.log.Error("configuration problem", "problem", p)
		if wrong++; wrong == 1 {
			first = p
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d errors, the first: %w", wrong, first)
	}
	return nil
}
