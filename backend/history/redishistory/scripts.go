package redishistory

import (
	"embed"
	"errors"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/redis/pipeline"
)

//go:embed lua
var sources embed.FS

// scripts are what runs in the servers; see the head of each file.
type scripts struct{ apply, change, due, read, glance, forget, probe, placed *pipeline.Script }

// newScripts puts the scripts together. What they share goes before each.
func newScripts() (s scripts, rules []string, err error) {
	shared := []string{"numbers"}
	var all strings.Builder
	for _, made := range []struct {
		script *(*pipeline.Script)
		name   string
		before []string
	}{
		{&s.apply, "apply", []string{"numbers", "exact"}}, {&s.change, "change", shared}, {&s.due, "due", shared},
		{&s.read, "read", shared}, {&s.glance, "glance", shared}, {&s.forget, "forget", shared}, {&s.probe, "probe", shared},
		{&s.placed, "placed", nil},
	} {
		var source strings.Builder
		for _, part := range append(slices.Clone(made.before), made.name) {
			text, failed := sources.ReadFile("lua/" + part + ".lua")
			err = errors.Join(err, failed)
			source.Write(text)
		}
		*made.script = pipeline.NewScript(source.String())
		all.WriteString(source.String())
	}
	return s, rulesOf(all.String()), err
}

// readingRules are the ACL rules for a history that is only read.
var readingRules = []string{"~weir:*", "+evalsha", "+get", "+hgetall", "+script|load", "+time", "+zscan"}

// rulesOf returns the ACL rules for the history.
func rulesOf(source string) []string {
	rules := append(pipeline.RulesOf(source),
		"+script|load", "+evalsha", "+get", "+set", "+zscan", "+zrangebyscore", "+hscan", "+info", "+bgrewriteaof")
	slices.Sort(rules)
	return append([]string{"~weir:*"}, slices.Compact(rules)...)
}
