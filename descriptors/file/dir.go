// Package file reads the configuration from a directory and reads it again when the directory changes.
//
// Every regular file below the directory is read, whatever its name, but for what editors leave behind and documents,
// which are named, and names that begin with a dot. Symbolic links are followed within the directory, which may be one
// itself, and not out of it. That suits a ConfigMap mount, which swaps a hidden link, as well as a plain directory.
package file

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

const (
	// interval is how often the directory is polled. A change is loaded once two polls running see the same, so it is in
	// force about one second after its last byte.
	interval = 500 * time.Millisecond
	// maxWaits is after how many polls a directory that keeps changing is loaded all the same: after ten seconds. A file
	// that is still being written is only partly there.
	maxWaits = 20
)

// Dir is a directory of configuration files.
type Dir struct {
	// OnError, if set, is called by Run for each change that was not put in force, or only in part, with the reason and
	// after apply. Set it before Run.
	OnError func(error)
	// Prefix, if set, is what the names of files begin with: their paths below the directory, with dots for slashes. With
	// config. these are config.yaml and config/shop.yaml, but not other.yaml. Set it before Run.
	Prefix string
	// MayBeEmpty makes a directory without files a configuration without domains, and a missing one too before anything
	// was loaded. Set it before Run.
	MayBeEmpty bool

	path   string
	log    *slog.Logger
	reload chan struct{} // has a token after Reload was called
	loader yaml.Loader
}

// New makes a source of the directory at path. It reads nothing yet.
func New(path string, o yaml.Options, log *slog.Logger) *Dir {
	return &Dir{path: path, log: log, reload: make(chan struct{}, 1), loader: yaml.Loader{LastGood: yaml.NewLastGood(o)}}
}

// Reload has Run read all files at once, also those that seem to be unchanged, and put them in force. It does not
// wait, and may be called by any number of goroutines.
func (d *Dir) Reload() {
	select {
	case d.reload <- struct{}{}:
	default: // it is about to
	}
}

// Load reads a directory once, as Run does at its start: the config has the domains whose files are right, and knows
// the others as broken. It is nil if there is no such domain. Problems name files relative to the directory. The error
// says why the directory itself cannot be used.
func Load(path string, o yaml.Options) (*descriptors.Config, yaml.Problems, error) {
	d := New(path, o, nil)
	s := d.scan()
	files, problems := s.read(path)
	update := d.update(s, files, problems)
	return update.Config, update.Problems, s.err
}

// Run implements [descriptors.Source]. It loads the directory at once, then after each change. What is wrong is
// logged, once and one line a problem, and breaks no more than [yaml.LastGood.Update] says. A directory that is
// missing or empty is waited for, and leaves the last good configuration in force.
func (d *Dir) Run(ctx context.Context, apply func(*descriptors.Config) error) error {
	d.loader.OnError = d.OnError
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var lastLoaded snapshot // in force or not; the zero value equals no other snapshot
	last, waited := d.scan(), 0
	if d.load(last, apply, 0) {
		lastLoaded = last
	}
	for reload := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.reload:
			reload = true
		case <-ticker.C:
		}
		now := d.scan()
		switch {
		case !reload && now.same(lastLoaded):
			waited = 0
		case (reload || now.same(last) || waited >= maxWaits) && d.load(now, apply, waited):
			lastLoaded, waited, reload = now, 0, false
		default:
			waited++
		}
		last = now
	}
}

// load reads the files of s, after the directory has changed during so many polls, and puts them in force. It reports
// false, and has done nothing, if the directory changed while it was read; after maxWaits polls only if all of it was
// swapped for another.
func (d *Dir) load(s snapshot, apply func(*descriptors.Config) error, waited int) bool {
	files, problems := s.read(d.path)
	if now := d.scan(); !now.same(s) && (waited < maxWaits || now.swapped(s)) {
		return false
	}
	log := d.log.With("dir", d.path)
	if d.isEmpty(s) {
		log.Warn("the configuration has no domains; every request is allowed", "reason", s.err)
	}
	d.loader.Apply(d.update(s, files, problems), apply, log, "files", len(s.files))
	return true
}

// update parses what was read of s, beside the last good forms.
func (d *Dir) update(s snapshot, files []yaml.File, problems yaml.Problems) yaml.Update {
	if s.err != nil && !d.isEmpty(s) {
		return yaml.Update{LastGood: d.loader.LastGood, Err: s.err}
	}
	return d.loader.LastGood.Update(files, problems)
}

// isEmpty reports whether s is a configuration without domains. A directory that goes missing is more likely a mistake, or
// about to be replaced.
func (d *Dir) isEmpty(s snapshot) bool {
	return d.MayBeEmpty && (s.empty || s.missing && !d.loader.Loaded)
}
