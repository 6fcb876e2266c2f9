package file

import (
	"cmp"
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

// snapshot is the state of a directory at one moment, without the content of its files.
type snapshot struct {
	dir      fs.FileInfo // the directory itself, links followed
	version  string      // target of the link ..data of a ConfigMap mount, "" for none
	files    []foundFile
	problems yaml.Problems // files that cannot be used and, as warnings, those that are left out
	err      error         // why the directory cannot be used
	missing  bool          // err means that there is no directory
	empty    bool          // err means that the directory has no files
}

// foundFile is a file: its path below the directory, and its size, time and identity, with links followed.
type foundFile struct {
	name string
	info fs.FileInfo
}

// same reports whether two snapshots are equal.
func (s snapshot) same(t snapshot) bool {
	if s.err != nil || t.err != nil {
		return s.err != nil && t.err != nil && s.err.Error() == t.err.Error()
	}
	return !s.swapped(t) && slices.Equal(s.problems, t.problems) && slices.EqualFunc(s.files, t.files, foundFile.same)
}

// swapped reports whether a link to the whole directory, or to the whole content of a ConfigMap, has changed.
func (s snapshot) swapped(t snapshot) bool {
	return s.version != t.version || !os.SameFile(s.dir, t.dir)
}

// same reports whether f and g are the same file with the same size and time.
func (f foundFile) same(g foundFile) bool {
	return f.name == g.name && f.info.Size() == g.info.Size() && f.info.ModTime().Equal(g.info.ModTime()) &&
		os.SameFile(f.info, g.info)
}

// scan makes a snapshot of the directory. A snapshot without an error has at least one file or problem.
func (d *Dir) scan() snapshot {
	root, err := os.OpenRoot(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("configuration directory %s does not exist: create it, or name another one", d.path)
		return snapshot{err: err, missing: true}
	case err != nil && strings.HasSuffix(err.Error(), "not a directory"): // without an error to compare with errors.Is
		return snapshot{err: fmt.Errorf("configuration directory cannot be read: %w: name the directory of the files", err)}
	case err != nil:
		return snapshot{err: fmt.Errorf("configuration directory cannot be read: %w", err)}
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return snapshot{err: fmt.Errorf("configuration directory %s cannot be read: %w", d.path, err)}
	}
	version, _ := root.Readlink("..data") // "" without such a link
	w := walker{root: root, prefix: d.Prefix, snapshot: snapshot{dir: info, version: version}}
	w.readDir("", []fs.FileInfo{info})
	switch {
	case w.err != nil:
		return snapshot{err: w.err}
	case len(w.files) == 0 && w.problems.Err() == nil:
		return snapshot{err: d.noFiles(w.problems), empty: true}
	}
	return w.snapshot
}

// noFiles returns the error of a directory without files, or with none except those that are left out.
func (d *Dir) noFiles(leftOut yaml.Problems) error {
	files := "files"
	if d.Prefix != "" {
		files = fmt.Sprintf("files %s* (a dot may be a slash)", d.Prefix)
	}
	if len(leftOut) > 0 {
		files += " but what is left out, such as " + descriptors.Abbreviate(leftOut[0].File)
	}
	return fmt.Errorf("configuration directory %s holds no %s: put a YAML file into it", d.path, files)
}

// walker makes a snapshot of a directory and those below it.
type walker struct {
	snapshot
	root   *os.Root // links that lead out of it are not followed
	prefix string   // Dir.Prefix
	size   int64
	dirs   int // number of directories walked, each as often as links lead to it
}

// readDir adds the entries of a directory. above has that directory and its parents.
func (w *walker) readDir(name string, above []fs.FileInfo) {
	entries, err := fs.ReadDir(w.root.FS(), cmp.Or(filepath.ToSlash(name), "."))
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

// add adds a file, or the entries of a directory.
func (w *walker) add(name string, above []fs.FileInfo) {
	dotted := strings.ReplaceAll(filepath.ToSlash(name), "/", ".")
	isFile := strings.HasPrefix(dotted, w.prefix)
	if !isFile && !strings.HasPrefix(w.prefix, dotted+".") { // nor a directory that may have such files
		return
	}
	info, err := w.root.Stat(name)
	switch {
	case isFile && isLeftover(filepath.Base(name)) && (err != nil || !info.IsDir()):
		w.leaveOut(name, "its name is that of a backup, a document or an editor's file: remove it, or give it another name if it "+
			"holds limits")
		err = nil
	case err != nil || !isFile && !info.IsDir():
	case info.IsDir() && slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }):
		err = errors.New("it links back to a directory above it")
	case info.IsDir() && len(above) > maxDepth:
		err = fmt.Errorf("directories nest deeper than %d levels", maxDepth)
	case info.IsDir():
		w.dirs++
		w.readDir(name, append(slices.Clip(above), info))
	case info.Mode().IsRegular() && info.Size() > maxFileSize:
		err = errTooLarge
	case info.Mode().IsRegular():
		w.files, w.size = append(w.files, foundFile{name, info}), w.size+info.Size()
	default:
		w.leaveOut(name, "it is neither a file nor a directory: remove it")
	}
	if err != nil {
		w.problems = append(w.problems, problem(name, err))
	}
	if len(w.files)+len(w.problems)+w.dirs > maxFiles || w.size > maxSize {
		w.err = fmt.Errorf("configuration directory %s holds more than %d files and directories, or %d MiB: is it the right one?",
			w.root.Name(), maxFiles, maxSize>>20)
	}
}

// leaveOut adds a warning that a file is not read.
func (w *walker) leaveOut(name, why string) {
	w.problems = append(w.problems, yaml.Problem{File: filepath.ToSlash(name), Warning: true, Text: "left out, as " + why})
}

// leftovers are the suffixes of the names of backups, rejected patches, files of editors, and documents.
var leftovers = []string{"~", ".bak", ".orig", ".rej", ".swp", ".swo", ".tmp", ".md"}

// isLeftover reports whether the name of a file is that of a backup, a document or an editor's file. Configuration
// files may have any other name.
func isLeftover(name string) bool {
	return strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") ||
		slices.ContainsFunc(leftovers, func(ending string) bool { return strings.HasSuffix(strings.ToLower(name), ending) })
}

// escapes is the text of the error of [os.Root] for a link that is absolute or leads out of it. Package os does not
// export the error.
const escapes = "path escapes from parent"

var errOutside = errors.New("it is a link that is absolute or leads out of the directory, where weir reads nothing: put " +
	"the file itself there, or a relative link to one in the directory")

var errTooLarge = fmt.Errorf("it is larger than %d MiB: split it", maxFileSize>>20)

// problem returns the problem of a file or directory that cannot be read.
func problem(name string, err error) yaml.Problem {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // without the path, which would repeat the name
	}
	if err.Error() == escapes {
		err = errOutside
	}
	if name == "" {
		name = "."
	}
	return yaml.Problem{File: filepath.ToSlash(name), Text: fmt.Sprintf("cannot be read: %v", err)}
}

// read reads the files of s below path. It returns a problem for each file and directory that cannot be read.
func (s snapshot) read(path string) ([]yaml.File, yaml.Problems) {
	problems := slices.Clone(s.problems)
	if len(s.files) == 0 {
		return nil, problems
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, append(problems, problem("", err))
	}
	defer root.Close()
	var files []yaml.File
	for _, f := range s.files {
		data, err := readFile(root, f.name)
		if err != nil {
			problems = append(problems, problem(f.name, err))
			continue
		}
		files = append(files, yaml.File{Name: filepath.ToSlash(f.name), Data: data})
	}
	return files, problems
}

// readFile reads a file, which may have grown since the scan.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f)
}

// ReadAll reads a configuration file of up to 16 MiB.
func ReadAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = errTooLarge
	}
	return data, err
}
