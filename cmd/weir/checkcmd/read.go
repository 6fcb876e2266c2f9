package checkcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/manifest"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// read judges what the command is given. Its error is about the environment.
func (c *Command) read(in io.Reader) (*checked, error) {
	if c.Path == "-" {
		return readFile(name(c.Path), in)
	}
	f, err := os.Open(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return unreadable("%s does not exist: name a directory of descriptor files, a file, or - for standard input", c.Path), nil
	}
	if err != nil {
		return unreadable("%v", err), nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return readDir(c.Path)
	}
	return readFile(c.Path, f)
}

// unreadable returns the result for a path that cannot be read: one problem, without a place.
func unreadable(format string, args ...any) *checked {
	return &checked{unreadable: true, problems: yaml.Problems{{Text: fmt.Sprintf(format, args...)}}}
}

func readDir(dir string) (*checked, error) {
	files, err := config.ReadFiles(config.Process())
	if err != nil {
		return nil, err
	}
	config, problems, err := file.Load(dir, files.Options())
	if err != nil {
		return unreadable("%v", err), nil
	}
	return &checked{config: config, problems: append(problems, ineffective(config)...), files: files, dir: dir}, nil
}

// readFile judges a descriptor file, or those in manifests.
func readFile(name string, in io.Reader) (*checked, error) {
	data, err := file.ReadAll(in)
	if err != nil {
		return unreadable("%s cannot be read: %v", name, err), nil
	}
	m, manifests := manifest.Read(name, data)
	if !manifests {
		m = &manifest.Manifests{Files: []yaml.File{{Name: name, Data: data}}}
	}
	environment, read := make(config.Environment), config.ReadFiles
	maps.Copy(environment, m.Environment)
	maps.Copy(environment, config.Process()) // variables of this process go before those of the manifest
	if m.Program == ratelimit.Server {
		read = ratelimit.ReadFiles
	}
	files, err := read(environment)
	if err != nil {
		return nil, err
	}
	update := yaml.NewLastGood(files.Options()).Update(m.Files, m.Problems)
	problems := append(update.Problems, ineffective(update.Config)...)
	x := &checked{config: update.Config, problems: problems, leftOut: m.LeftOut, files: files}
	slices.SortStableFunc(x.problems, func(a, b yaml.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return x, nil
}

// path returns the path of a file from the directory that the command runs in, as annotations need it.
func (x *checked) path(file string) string {
	if x.dir == "" || file == "" {
		return file
	}
	return filepath.ToSlash(filepath.Join(x.dir, file))
}
