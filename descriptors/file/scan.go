package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors/yaml"
)

const (
	maxFileSize = 16 << 20
	maxSize     = 64 << 20 // of all files together
	maxFiles    = 10_000
	maxDepth    = 10 // of directories below the first
)

// snapshot is what a directory held at one moment, as far as can be told without reading its files.
type snapshot struct {
	dir      fs.FileInfo // the directory itself, links followed
	version  string      // what the link ..data of a ConfigMap mount names, "" if there is none
	files    []found
	problems yaml.Problems // files that cannot be used
	err      error         // why the directory cannot be used
}

// found is a file: its name below the directory, and its size, time and identity, links followed.
type found struct {
	name string
	info fs.FileInfo
}

// same reports whether nothing seems to have changed between two snapshots.
func (s snapshot) same(t snapshot) bool {
	if s.err != nil || t.err != nil {
		return s.err != nil && t.err != nil && s.err.Error() == t.err.Error()
	}
	return !s.swapped(t) && slices.Equal(s.problems, t.problems) && slices.EqualFunc(s.files, t.files, found.same)
}

// swapped reports whether a link to the whole directory, or to the whole content of a ConfigMap, has changed.
func (s snapshot) swapped(t snapshot) bool {
	return s.version != t.version || !os.SameFile(s.dir, t.dir)
}

// patience returns for how many looks the directory is waited for, last being the snapshot of the look before.
func (s snapshot) patience(last snapshot) int {
	before := make(map[string]found, len(last.files))
	for _, f := range last.files {
		before[f.name] = f
	}
	beingWritten := func(f found) bool {
		old, there := before[f.name]
		return there && os.SameFile(f.info, old.info) && !f.same(old)
	}
	if !s.swapped(last) && slices.ContainsFunc(s.files, beingWritten) {
		return patience
	}
	return restless
}

// same reports whether a file of that name seems to be unchanged.
func (f found) same(g found) bool {
	return f.name == g.name && f.info.Size() == g.info.Size() && f.info.ModTime().Equal(g.info.ModTime()) &&
		changed(f.info) == changed(g.info) && os.SameFile(f.info, g.info)
}

// scan lists the files below a directory. A snapshot without an error holds at least one file or problem.
func scan(path string) snapshot {
	version, _ := os.Readlink(filepath.Join(path, "..data")) // where there is none, nothing is swapped
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return snapshot{err: fmt.Errorf("configuration directory %s does not exist: create it, or name another one", path)}
	case err != nil:
		return snapshot{err: fmt.Errorf("configuration directory cannot be read: %w", err)}
	case !info.IsDir():
		return snapshot{err: fmt.Errorf("%s is not a directory: name the directory that holds the configuration", path)}
	}
	w := walk{root: path, snapshot: snapshot{dir: info, version: version}}
	w.walk("", []fs.FileInfo{info})
	switch {
	case w.err != nil:
		return snapshot{err: w.err}
	case len(w.files)+len(w.problems) == 0:
		return snapshot{err: fmt.Errorf("configuration directory %s holds no files: put a YAML file into it", path)}
	}
	return w.snapshot
}

// walk makes a snapshot of a directory and those below it.
type walk struct {
	snapshot
	root string
	size int64
}

// walk adds what is in the directory of that name; above are that directory and those that led to it.
func (w *walk) walk(name string, above []fs.FileInfo) {
	entries, err := os.ReadDir(filepath.Join(w.root, name))
	if err != nil {
		w.problems = append(w.problems, problem(name, err))
		return
	}
	for _, e := range entries {
		if w.err == nil && !strings.HasPrefix(e.Name(), ".") {
			w.add(filepath.Join(name, e.Name()), above)
		}
	}
}

// add adds a file, or what is in a directory.
func (w *walk) add(name string, above []fs.FileInfo) {
	info, err := os.Stat(filepath.Join(w.root, name))
	switch {
	case err != nil:
	case info.IsDir() && slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }):
		err = errors.New("it links back to a directory above it")
	case info.IsDir() && len(above) > maxDepth:
		err = fmt.Errorf("directories nest deeper than %d levels", maxDepth)
	case info.IsDir():
		w.walk(name, append(slices.Clip(above), info))
	case info.Mode().IsRegular() && info.Size() > maxFileSize:
		err = errTooLarge
	case info.Mode().IsRegular():
		w.files, w.size = append(w.files, found{name, info}), w.size+info.Size()
	}
	if err != nil {
		w.problems = append(w.problems, problem(name, err))
	}
	if len(w.files) > maxFiles || w.size > maxSize {
		w.err = fmt.Errorf("configuration directory %s holds more than %d files or %d MiB: is it the right one?",
			w.root, maxFiles, maxSize>>20)
	}
}

var errTooLarge = fmt.Errorf("it is larger than %d MiB: split it", maxFileSize>>20)

// problem returns why a file, or a directory below the first, cannot be used.
func problem(name string, err error) yaml.Problem {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // its path would only repeat the name
	}
	if name == "" {
		name = "."
	}
	return yaml.Problem{File: filepath.ToSlash(name), Text: fmt.Sprintf("cannot be read: %v", err)}
}

// readWhole reads what s lists below path, and reports whether that is what was there at one moment: nothing changed
// meanwhile. If it has been waited for so many looks that it is restless, it reads again what s then becomes; and once
// patience has run out, a file may change meanwhile, but still nothing may be swapped.
func (s *snapshot) readWhole(path string, waited int) (files []yaml.File, problems yaml.Problems, whole bool) {
	left := 1
	if waited >= restless {
		left = attempts
	}
	for ; left > 0 && !whole; left-- {
		files, problems = s.read(path)
		now := scan(path)
		whole = now.same(*s) || waited >= patience && !now.swapped(*s)
		if !whole {
			*s = now
		}
	}
	return files, problems, whole
}

// read reads what s lists below path. There is a problem for each file and directory that cannot be read.
func (s snapshot) read(path string) ([]yaml.File, yaml.Problems) {
	problems := slices.Clone(s.problems)
	var files []yaml.File
	for _, f := range s.files {
		data, err := read(filepath.Join(path, f.name))
		if err != nil {
			problems = append(problems, problem(f.name, err))
			continue
		}
		files = append(files, yaml.File{Name: filepath.ToSlash(f.name), Data: data})
	}
	return files, problems
}

// read reads a file, which may have grown since it was seen.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = errTooLarge
	}
	return data, err
}
