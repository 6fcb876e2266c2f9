// Package file reads the configuration from a directory and reads it again when the directory changes.
//
// It reads every regular file below the directory, except files whose names begin with a dot, and documents and
// leftovers of editors, for which it warns. It follows symbolic links within the directory, but not out of it; the
// directory itself may be a link. So it can read a ConfigMap mount, which is updated by swapping a hidden link, as well
// as a plain directory.
package file

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

const (
	// interval is the time between polls of the directory. A change is loaded when two polls in a row see the same, so
	// about one second after its last byte was written.
	interval = 500 * time.Millisecond
	// maxWaits is the number of polls, for ten seconds, after which a directory that still changes is loaded. Files that
	// are still being written may then be incomplete.
	maxWaits = 20
)

// Dir is a directory of configuration files.
type Dir struct {
	// OnError, if not nil, is called by Run for each change that was rejected, in whole or in part, with the error and
	// after apply. Set it before Run.
	OnError func(error)
	// Prefix selects the files whose names begin with it. A name is the path below the directory, with dots for slashes.
	// The prefix config. selects config.yaml and config/shop.yaml, but not other.yaml. Set it before Run.
	Prefix string
	// MayBeEmpty makes a directory without files a valid configuration without domains, and also a missing directory
	// before the first load. Set it before Run.
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

// Reload makes Run read and apply all files at once, even unchanged ones. It does not wait, and may be called by any
// number of goroutines.
func (d *Dir) Reload() {
	select {
	case d.reload <- struct{}{}:
	default: // Run has not handled the last token yet
	}
}

// Load reads a directory once, as Run does at its start. The config has the domains whose files are valid, and lists
// the others as broken; it is nil if no domain is valid. Problems name files relative to the directory. The error means
// that the directory itself cannot be used.
func Load(path string, o yaml.Options) (*descriptors.Config, yaml.Problems, error) {
	d := New(path, o, nil)
	s := d.scan()
	files, problems := s.read(path)
	update := d.update(s, files, problems)
	return update.Config, update.Problems, s.err
}

// Run implements [descriptors.Source]. It loads the directory at once, then after each change. It logs each problem
// once; see [yaml.LastGood.Update] for the effect of problems. While the directory is missing or empty, the last good
// configuration stays in force.
func (d *Dir) Run(ctx context.Context, apply func(*descriptors.Config) error) error {
	d.loader.OnError = d.OnError
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var lastLoaded snapshot // the zero value equals no other snapshot
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

// load reads and applies the files of s; waited is the number of polls for which the directory has been changing. It
// returns false without effect if the directory changed while it was read; after maxWaits polls, only if the whole
// directory was swapped.
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

// update makes an update of the files and problems of s.
func (d *Dir) update(s snapshot, files []yaml.File, problems yaml.Problems) yaml.Update {
	if s.err != nil && !d.isEmpty(s) {
		return yaml.Update{LastGood: d.loader.LastGood, Err: s.err}
	}
	return d.loader.LastGood.Update(files, problems)
}

// isEmpty reports whether s is a valid configuration without domains. A directory that goes missing after the first
// load is not: it is more likely a mistake, or about to be replaced.
func (d *Dir) isEmpty(s snapshot) bool {
	return d.MayBeEmpty && (s.empty || s.missing && !d.loader.Loaded)
}
