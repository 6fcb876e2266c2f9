package redishistory

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// An operator copies the lines of OPERATION.md into an ACL: a right that they leave out is a history that is not kept.
func TestOperationNamesEveryRight(t *testing.T) {
	text, err := os.ReadFile("../../../cmd/weir/OPERATION.md")
	if err != nil {
		t.Fatal(err)
	}
	document := strings.NewReplacer("`", " ", "\n", " ").Replace(string(text))
	_, rules, err := newScripts()
	if err != nil {
		t.Fatal(err)
	}
	const readers = "    ACL SETUSER reader on >secret "
	_, line, _ := strings.Cut(string(text), readers)
	line, _, _ = strings.Cut(line, "\n")
	for _, rule := range append([]string{"+ping"}, readingRules...) {
		if !slices.Contains(strings.Fields(line), rule) {
			t.Errorf("OPERATION.md does not name the right %s for those who only read: %s%s", rule, readers, line)
		}
	}
	for _, rule := range rules {
		if !strings.Contains(document, " "+rule+" ") {
			t.Errorf("OPERATION.md does not name the right %s, which the history in Redis needs", rule)
		}
	}
}
