package house_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 80
)

// checkIntroductions wants one package comment in each package: none leaves its reader alone, two contradict each
// other.
func checkIntroductions(files []*sourceFile) []string {
	introduced := make(map[string][]string) // the files with a package comment, by room
	var broken []string
	for _, f := range slices.DeleteFunc(slices.Clone(files), tests) {
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

// checkExported wants a comment on each exported name that other packages can reach. One comment on a group of
// constants or variables is enough for all of them.
func checkExported(f *sourceFile) (broken []string) {
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

func checkSizes(f *sourceFile) (broken []string) {
	if ast.IsGenerated(f.tree) {
		return nil
	}
	if f.lines > maxFileLines {
		broken = append(broken, fmt.Sprintf("%s:%d: the file has %d lines, at most %d are allowed: a file is about one thing",
			f.name, maxFileLines+1, f.lines, maxFileLines))
	}
	return append(broken, f.find(func(n ast.Node) string {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			if lines := f.line(n.End()) - f.line(n.Pos()) + 1; lines > maxFunctionLines {
				return fmt.Sprintf("the function has %d lines, at most %d are allowed: what does not fit on a page is not seen "+
					"at once", lines, maxFunctionLines)
			}
		}
		return ""
	})...)
}

func checkPanics(f *sourceFile) []string {
	commented := make(map[int]bool)
	for _, group := range f.tree.Comments {
		for _, c := range group.List {
			commented[f.line(c.Pos())] = true
		}
	}
	return f.find(func(n ast.Node) string {
		call, is := n.(*ast.CallExpr)
		if !is || commented[f.line(call.Pos())] || commented[f.line(call.End())] {
			return ""
		}
		if callee, is := call.Fun.(*ast.Ident); !is || callee.Name != "panic" {
			return ""
		}
		return "panic without a reason on its line: a limiter that dies takes its whole mesh with it, so return an error, or say " +
			"on that line why this cannot happen"
	})
}

func checkSkips(f *sourceFile) []string {
	return f.find(func(n ast.Node) string {
		for _, runner := range []string{"t", "b", "f", "tb"} {
			if selects(n, runner, "Skip", "Skipf", "SkipNow") {
				return "a test that skips itself looks like one that passed; fail with a sentence that says what is missing"
			}
		}
		return ""
	})
}
