package redishistory

import (
	"os"
	"strings"
	"testing"
)

// An operator copies the line of the README into an ACL: a right that it leaves out is a history that is not kept.
func TestReadmeNamesEveryRight(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.NewReplacer("`", " ", "\n", " ").Replace(string(text))
	_, rules, err := newScripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if !strings.Contains(readme, " "+rule+" ") {
			t.Errorf("README.md does not name the right %s, which the history in Redis needs", rule)
		}
	}
}
