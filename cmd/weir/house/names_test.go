package house_test

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	capitalised = regexp.MustCompile(`[A-Z][a-z]+`)
	badTest     = regexp.MustCompile(`^Test (What|Who)(ever)?\b|^Test( \w+){8}`)
	logCall     = regexp.MustCompile(`\.(Debug|Info|Warn|Error|Log)$`)
	unclear     = regexp.MustCompile(`(?i)\b(ample|calm|chance|doors?|fading|former|handful|headroom|heartbeats?|lent|news|` +
		`overtaken|rarely|spares?|stem|stranded|suspects?|trial|troubled|troubles|turns|worthwhile)\b`)
)

// wordsOf splits a name at its capitals; an acronym is one word.
func wordsOf(name string) string {
	return strings.Join(strings.Fields(capitalised.ReplaceAllString(name, " $0 ")), " ")
}

// checkNames wants short names of tests, and the terms of the field in exported names and in logs.
func checkNames(f *sourceFile) []string {
	return f.find(func(n ast.Node) string {
		text := ""
		switch n := n.(type) {
		case *ast.FuncDecl:
			if tests(f) && badTest.MatchString(wordsOf(n.Name.Name)) {
				return n.Name.Name + ": say in at most seven words what is called and what must happen"
			}
		case *ast.Ident:
			if n.IsExported() {
				text = wordsOf(n.Name)
			}
		case *ast.CallExpr:
			if logCall.MatchString(types.ExprString(n.Fun)) {
				text = types.ExprString(n)
			}
		}
		if word := unclear.FindString(text); word != "" && product(f) {
			return word + " has a meaning of its own here: use the term of the field"
		}
		return ""
	})
}

func TestNestedModulesUseTheSameNames(t *testing.T) {
	for _, module := range []string{"helm/charttest", "k8s/image", "server/page/browser"} {
		for _, broken := range each(all, checkNames)(readHouse(t, filepath.Join("..", "..", "..", filepath.FromSlash(module)))) {
			t.Errorf("%s: %s", module, broken)
		}
	}
}
