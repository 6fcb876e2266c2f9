package house_test

import (
	_ "embed"
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 80
)

// checkIntroductions wants one package comment in each package: none leaves its reader alone, two contradict each
// other.
func checkIntroductions(files []*houseFile) []string {
	introduced := make(map[string][]string) // the files with a package comment, by room
	var broken []string
	for _, f := range files {
		if f.isTest() {
			continue
		}
		introductions := introduced[f.room]
		if text := f.tree.Doc.Text(); text != "" {
			introductions = append(introductions, f.name)
			if name := f.tree.Name.Name; name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
				broken = append(broken, f.broken(f.tree.Doc.Pos(), "the package comment must begin with %q, as go doc has it",
					"Package "+name))
			}
		}
		introduced[f.room] = introductions
	}
	for _, room := range slices.Sorted(maps.Keys(introduced)) {
		if names := introduced[room]; len(names) != 1 {
			broken = append(broken, fmt.Sprintf("%s: %d files have a package comment (%s), want exactly one: "+
				"it is where a reader of the package starts", room, len(names), enumerate(names)))
		}
	}
	return broken
}

func TestHouseIntroductionsAreCounted(t *testing.T) {
	for _, c := range []struct {
		promise string
		first   string // of two files of package rls
		second  string
		want    string
	}{
		{"one is right", "// Package rls answers.\npackage rls", "package rls", ""},
		{"none is too few", "package rls", "package rls", "server/rls: 0 files have a package comment (none)"},
		{"two are too many", "// Package rls answers.\npackage rls", "// Package rls asks.\npackage rls", "2 files"},
		{"it begins as go doc has it", "// It answers.\npackage rls", "package rls", `must begin with "Package rls"`},
		{"a blank line sets it apart", "// Package rls answers.\n\npackage rls", "package rls", "0 files"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			files := parseExamples(t, "server/rls/0.go", c.first, "server/rls/1.go", c.second)
			got := strings.Join(checkIntroductions(files), "\n")
			if !strings.Contains(got, c.want) || (c.want == "" && got != "") {
				t.Errorf("checkIntroductions finds %q, want %q", got, c.want)
			}
		})
	}
}

// checkExported wants a comment on each exported name that other packages can reach. One comment on a group of
// constants or variables is enough for all of them.
func checkExported(f *houseFile) []string {
	if f.isTest() {
		return nil
	}
	var broken []string
	want := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		explained := slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" })
		if name.IsExported() && !explained {
			broken = append(broken, f.broken(name.Pos(), "%s is exported and has no comment: whoever uses it has to read its "+
				"code to learn its units, ranges and errors", name.Name))
		}
	}
	for _, decl := range f.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiverName(d)) {
				want(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					want(s.Name, s.Doc, s.Comment, d.Doc)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						want(name, s.Doc, s.Comment, d.Doc)
					}
				}
			}
		}
	}
	return broken
}

// receiverName is the name of a method's type.
func receiverName(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func checkSizes(f *houseFile) []string {
	if ast.IsGenerated(f.tree) {
		return nil
	}
	var broken []string
	if f.lines > maxFileLines {
		broken = append(broken, fmt.Sprintf("%s:%d: the file has %d lines, at most %d are allowed: a file is about one thing",
			f.name, maxFileLines+1, f.lines, maxFileLines))
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		var name string
		switch d := n.(type) {
		case *ast.FuncDecl:
			name = d.Name.Name
		case *ast.FuncLit:
			name = "the function"
		default:
			return true
		}
		if lines := f.line(n.End()) - f.line(n.Pos()) + 1; lines > maxFunctionLines {
			broken = append(broken, f.broken(n.Pos(), "%s has %d lines, at most %d are allowed: what does not fit on a page "+
				"is not seen at once", name, lines, maxFunctionLines))
		}
		return true
	})
	return broken
}

func checkPanics(f *houseFile) []string {
	if f.isTest() {
		return nil
	}
	commented := make(map[int]bool)
	for _, group := range f.tree.Comments {
		for _, c := range group.List {
			commented[f.line(c.Pos())] = true
		}
	}
	var broken []string
	ast.Inspect(f.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if callee, ok := call.Fun.(*ast.Ident); ok && callee.Name == "panic" &&
			!commented[f.line(call.Pos())] && !commented[f.line(call.End())] {
			broken = append(broken, f.broken(call.Pos(), "panic without a reason on its line: a limiter that dies takes its "+
				"whole mesh with it, so return an error, or say on that line why this cannot happen"))
		}
		return true
	})
	return broken
}

// vagueNames say nothing about what a package does, so anything gets put there.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "managers"}

func checkNames(f *houseFile) []string {
	var broken []string
	name := strings.TrimSuffix(f.tree.Name.Name, "_test")
	if slices.Contains(vagueNames, name) || slices.Contains(vagueNames, path.Base(f.room)) {
		broken = append(broken, f.broken(f.tree.Name.Pos(), "package %s in %s is named for nothing: name it for what it "+
			"does, or put its parts where they are used", name, f.room))
	}
	reported := make(map[string]bool)
	foreign := make(map[*ast.Ident]bool) // names after a dot, which others may have given
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.SelectorExpr:
			foreign[e.Sel] = true
		case *ast.Ident:
			if strings.HasSuffix(e.Name, "Impl") && !foreign[e] && !reported[e.Name] {
				reported[e.Name] = true
				broken = append(broken, f.broken(e.Pos(), "%s: name it for how it does its work (memory, redis), "+
					"everything implements something", e.Name))
			}
		}
		return true
	})
	return broken
}

func checkSkips(f *houseFile) []string {
	if !f.isTest() {
		return nil
	}
	var broken []string
	ast.Inspect(f.tree, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
			broken = append(broken, f.broken(s.Pos(), "%s.%s: a test that skips itself looks like one that passed; "+
				"fail with a sentence that says what is missing", x.Name, s.Sel.Name))
		}
		return true
	})
	return broken
}

// skippedTest is kept out of the Go files: whoever searches them for skipped tests must find none.
//
//go:embed testdata/skipped_test.go.txt
var skippedTest string

var styleExamples = []houseExample{
	{
		promise: "explained names are fine, and what nobody can reach needs no comment",
		file:    "server/rls/a.go",
		src: "package rls\n\n// These are the outcomes.\nconst (\n\tWithin = iota\n\tOver\n)\n\n" +
			"// T is a thing.\ntype T struct{}\n\n// Do does it.\nfunc (t *T) Do() {}\n\n" +
			"type hidden struct{}\n\nfunc (hidden) Do() {}\n",
	}, {
		promise: "an exported method without a comment is found",
		file:    "server/rls/a.go",
		src:     "package rls\n\ntype t struct{}\n\n// T is a thing.\ntype T[K any] struct{}\n\nfunc (t *T[K]) Do() {}\n",
		rule:    "exported names are explained",
		want:    "server/rls/a.go:8: Do is exported and has no comment",
	}, {
		promise: "an exported constant without a comment is found",
		file:    "server/rls/a.go",
		src:     "package rls\n\nconst (\n\t// A is the first.\n\tA = 1\n\tB = 2\n)\n",
		rule:    "exported names are explained",
		want:    "server/rls/a.go:6: B is exported",
	}, {
		promise: "a function of 80 lines is fine",
		file:    "server/rls/a.go",
		src:     "package rls\n\nfunc f() {" + strings.Repeat("\n", maxFunctionLines-1) + "}\n",
	}, {
		promise: "a function of 81 lines is too long, in tests too",
		file:    "server/rls/a_test.go",
		src:     "package rls\n\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}\n",
		rule:    "files and functions are short",
		want:    "server/rls/a_test.go:3: f has 81 lines",
	}, {
		promise: "a file of 601 lines is too long",
		file:    "server/rls/a.go",
		src:     "package rls" + strings.Repeat("\n", maxFileLines+1),
		rule:    "files and functions are short",
		want:    "the file has 601 lines",
	}, {
		promise: "a panic with its reason is fine",
		file:    "server/rls/a.go",
		src:     "package rls\n\nfunc f() {\n\tpanic(1) // the compiler cannot see that the switch above is complete\n}\n",
	}, {
		promise: "a panic without one is found",
		file:    "server/rls/a.go",
		src:     "package rls\n\n// A reason elsewhere.\nfunc f() {\n\tpanic(1)\n}\n",
		rule:    "a panic has its reason on its line",
		want:    "server/rls/a.go:5: panic without a reason",
	}, {
		promise: "a test may panic",
		file:    "server/rls/a_test.go",
		src:     "package rls\n\nfunc f() { panic(1) }\n",
	}, {
		promise: "a package named for nothing is found",
		file:    "server/util/a.go",
		src:     "package util\n",
		rule:    "packages and types are named for what they do",
		want:    "server/util/a.go:1: package util",
	}, {
		promise: "a type named for implementing something is found, others' names are not",
		file:    "server/rls/a.go",
		src:     "package rls\n\nimport \"example\"\n\nvar x example.ServerImpl\n\ntype serverImpl struct{}\n",
		rule:    "packages and types are named for what they do",
		want:    "server/rls/a.go:7: serverImpl",
	}, {
		promise: "a skipped test is found",
		file:    "server/rls/a_test.go",
		src:     skippedTest,
		rule:    "no test is skipped",
		want:    "server/rls/a_test.go:5: t.Skip",
	},
}
