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

	"github.com/weirproxy/weir/descriptors"
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
	files    []found
	problems yaml.Problems // files that cannot be used
	err      error         // why the directory cannot be used
}

// found is a file: its name below the directory, and its size, time and identity, links followed.
type found struct {
	name string
	info fs.FileInfo
}

// same says whether nothing seems to have changed between two snapshots.
func (s snapshot) same(t snapshot) bool {
	if s.err != nil || t.err != nil {
		return s.err != nil && t.err != nil && s.err.Error() == t.err.Error()
	}
	return slices.Equal(s.problems, t.problems) && slices.EqualFunc(s.files, t.files, func(a, b found) bool {
		return a.name == b.name && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime()) &&
			changed(a.info) == changed(b.info) && os.SameFile(a.info, b.info)
	})
}

// scan lists the files below a directory. A snapshot without an error holds at least one file or problem.
func scan(path string) snapshot {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return snapshot{err: fmt.Errorf("configuration directory %s does not exist: create it, or name another one", path)}
	case err != nil:
		return snapshot{err: fmt.Errorf("configuration directory cannot be read: %w", err)}
	case !info.IsDir():
		return snapshot{err: fmt.Errorf("%s is not a directory: name the directory that holds the configuration", path)}
	}
	w := walk{root: path}
	w.dir("", []fs.FileInfo{info})
	switch {
	case w.seen.err != nil:
		return snapshot{err: w.seen.err}
	case len(w.seen.files)+len(w.seen.problems) == 0:
		return snapshot{err: fmt.Errorf("configuration directory %s holds no files: put a YAML file into it", path)}
	}
	return w.seen
}

// walk goes through a directory and those below it.
type walk struct {
	root string
	size int64
	seen snapshot
}

// dir adds the files of the directory of that name; above are that directory and those that led to it.
func (w *walk) dir(name string, above []fs.FileInfo) {
	entries, err := os.ReadDir(filepath.Join(w.root, name))
	if err != nil {
		w.problem(name, err)
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		below := filepath.Join(name, e.Name())
		info, err := os.Stat(filepath.Join(w.root, below))
		switch {
		case err != nil:
			w.problem(below, err)
		case info.IsDir():
			w.below(below, info, above)
		case info.Mode().IsRegular():
			w.file(below, info)
		}
		if w.seen.err != nil {
			return
		}
	}
}

// below goes into a directory, unless links lead in circles.
func (w *walk) below(name string, info fs.FileInfo, above []fs.FileInfo) {
	switch {
	case slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }):
		w.problem(name, errors.New("it links back to a directory above it"))
	case len(above) > maxDepth:
		w.problem(name, fmt.Errorf("directories nest deeper than %d levels", maxDepth))
	default:
		w.dir(name, append(above[:len(above):len(above)], info))
	}
}

func (w *walk) file(name string, info fs.FileInfo) {
	if info.Size() > maxFileSize {
		w.problem(name, errTooLarge)
		return
	}
	w.size += info.Size()
	w.seen.files = append(w.seen.files, found{name, info})
	if len(w.seen.files) > maxFiles || w.size > maxSize {
		w.seen.err = fmt.Errorf("configuration directory %s holds more than %d files or %d MiB: is it the right one?",
			w.root, maxFiles, maxSize>>20)
	}
}

func (w *walk) problem(name string, err error) {
	w.seen.problems = append(w.seen.problems, problem(name, err))
}

var errTooLarge = fmt.Errorf("it is larger than %d MiB: split it", maxFileSize>>20)

// problem says of a file, or of a directory below the first, why it cannot be used.
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

// load reads and parses what s lists below path, as at a start.
func load(s snapshot, path string, o yaml.Options) (*descriptors.Config, yaml.Problems, error) {
	if s.err != nil {
		return nil, nil, s.err
	}
	renewed := New(path, o, nil).renew(s)
	return renewed.Config, renewed.Problems, nil
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
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, errTooLarge
	}
	return data, nil
}
