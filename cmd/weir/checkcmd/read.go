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
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/manifest"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// findings are the results of checking the command's files.
type findings struct {
	config     *descriptors.Config // nil if no domain is valid
	problems   yaml.Problems
	leftOut    []string           // a sentence for each part of manifests that weir would not read
	onFailure  descriptors.Policy // policy of rules without one
	dir        string             // directory that the names of files are relative to; "" if they are paths already
	unreadable bool               // nothing could be read; the only problem says why, and has no position
}

// valid reports whether the configuration can be used.
func (f *findings) valid() bool { return f.problems.Err() == nil }

// path returns the path of a file from the directory that the command runs in, as annotations need it.
func (f *findings) path(file string) string {
	if f.dir == "" || file == "" {
		return file
	}
	return filepath.ToSlash(filepath.Join(f.dir, file))
}

// read checks the command's files. Its error is about the environment.
func (c *Command) read(in io.Reader) (*findings, error) {
	if c.Path == "-" {
		return readFile(c.sourceName(), in)
	}
	opened, err := os.Open(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return unreadable("%s does not exist: name a directory of descriptor files, a file, or - for standard input", c.Path), nil
	}
	if err != nil {
		return unreadable("%v", err), nil
	}
	defer opened.Close()
	if info, err := opened.Stat(); err == nil && info.IsDir() {
		return readDir(c.Path)
	}
	return readFile(c.Path, opened)
}

// unreadable returns the findings if nothing could be read; the text says why.
func unreadable(format string, args ...any) *findings {
	return &findings{unreadable: true, problems: yaml.Problems{{Text: fmt.Sprintf(format, args...)}}}
}

func readDir(dir string) (*findings, error) {
	variables, err := config.ReadFiles(config.Process())
	if err != nil {
		return nil, err
	}
	loaded, problems, err := file.Load(dir, variables.Options())
	if err != nil {
		return unreadable("%v", err), nil
	}
	problems = append(problems, ineffective(loaded)...)
	return &findings{config: loaded, problems: problems, onFailure: variables.OnFailure, dir: dir}, nil
}

// readFile checks a descriptor file, or those in manifests.
func readFile(name string, in io.Reader) (*findings, error) {
	data, err := file.ReadAll(in)
	if err != nil {
		return unreadable("%s cannot be read: %v", name, err), nil
	}
	m, isManifest := manifest.Read(name, data)
	if !isManifest {
		m = &manifest.Manifests{Files: []yaml.File{{Name: name, Data: data}}}
	}
	environment := make(config.Environment)
	maps.Copy(environment, m.Environment)
	maps.Copy(environment, config.Process()) // variables of this process go before those of the manifest
	readVariables := config.ReadFiles
	if m.Program == ratelimit.Server {
		readVariables = ratelimit.ReadFiles
	}
	variables, err := readVariables(environment)
	if err != nil {
		return nil, err
	}
	update := yaml.NewLastGood(variables.Options()).Update(m.Files, m.Problems)
	problems := append(update.Problems, ineffective(update.Config)...)
	slices.SortStableFunc(problems, func(a, b yaml.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return &findings{config: update.Config, problems: problems, leftOut: m.LeftOut, onFailure: variables.OnFailure}, nil
}
