package house_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sourceFile is one Go file of the module, parsed.
type sourceFile struct {
	name  string // path inside the module, with slashes
	room  string // path of its package inside the module
	lines int
	set   *token.FileSet
	tree  *ast.File
}

// rule looks at files and returns what breaks the rule: where, what and why it matters.
type rule func([]*sourceFile) []string

var rules = map[string]rule{
	"rooms reach only what they may":      checkReach,
	"libraries stay in their rooms":       each(product, checkLibraries),
	"the named libraries are used":        checkNamed,
	"only cmd/weir reads the environment": each(product, checkEnvironment),
	"each package is introduced once":     checkIntroductions,
	"exported names are explained":        each(product, checkExported),
	"files and functions are short":       each(all, checkSizes),
	"a panic has its reason on its line":  each(product, checkPanics),
	"no test is skipped":                  each(tests, checkSkips),
	"names are short and plain":           each(all, checkNames),
}

// Which files a rule holds for.
func all(*sourceFile) bool       { return true }
func tests(f *sourceFile) bool   { return strings.HasSuffix(f.name, "_test.go") }
func product(f *sourceFile) bool { return !tests(f) }

// each returns a rule that holds for each of some files by itself.
func each(of func(*sourceFile) bool, check func(*sourceFile) []string) rule {
	return func(files []*sourceFile) (broken []string) {
		for _, f := range files {
			if of(f) {
				broken = append(broken, check(f)...)
			}
		}
		return broken
	}
}

func TestRepositoryFollowsItsRules(t *testing.T) {
	files := readHouse(t, filepath.Join("..", "..", ".."))
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			for _, broken := range rule(files) {
				t.Error(broken)
			}
		})
	}
}

// readHouse parses all Go files of the module at root. Hidden folders, test data and modules of their own are not its
// code.
func readHouse(t *testing.T, root string) []*sourceFile {
	t.Helper()
	var files []*sourceFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && foreignFolder(name) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		inside = filepath.ToSlash(inside)
		f := &sourceFile{name: inside, room: path.Dir(inside), lines: bytes.Count(src, []byte("\n")), set: token.NewFileSet()}
		f.tree, err = parser.ParseFile(f.set, inside, src, parser.ParseComments|parser.SkipObjectResolution)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatalf("reading the module's files: %v", err)
	}
	if len(files) < 2 {
		t.Fatalf("found only %d Go files under %s: these tests look in the wrong place and prove nothing", len(files), root)
	}
	return files
}

func foreignFolder(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") || base == "testdata" {
		return true
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return err == nil
}

func (f *sourceFile) line(p token.Pos) int { return f.set.Position(p).Line }

// broken writes one finding as file:line: what, so that editors can jump to it.
func (f *sourceFile) broken(p token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.name, f.line(p), fmt.Sprintf(format, args...))
}

// find returns what a complaint about each node of the file's tree is, but for "".
func (f *sourceFile) find(complain func(ast.Node) string) (broken []string) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if n != nil {
			if text := complain(n); text != "" {
				broken = append(broken, f.broken(n.Pos(), "%s", text))
			}
		}
		return true
	})
	return broken
}

// selects reports whether a node is of.NAME, with one of these names.
func selects(n ast.Node, of string, names ...string) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, s.Sel.Name) {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == of
}
