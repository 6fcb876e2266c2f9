package redishistory

import (
	"embed"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend/redis"
)

//go:embed lua
var sources embed.FS

// scripts are what runs in the servers; see the head of each file.
type scripts struct{ apply, roll, expire, due, read, forget, probe, placed *redis.Script }

// newScripts puts the scripts together. What they share goes before each.
func newScripts() (s scripts, rules []string, err error) {
	shared := []string{"numbers"}
	exact := []string{"numbers", "exact"}
	var all strings.Builder
	for _, made := range []struct {
		script *(*redis.Script)
		name   string
		before []string
	}{
		{&s.apply, "apply", shared}, {&s.roll, "roll", exact}, {&s.expire, "expire", exact}, {&s.due, "due", shared},
		{&s.read, "read", shared}, {&s.forget, "forget", shared}, {&s.probe, "probe", shared}, {&s.placed, "placed", nil},
	} {
		var source strings.Builder
		for _, part := range append(slices.Clone(made.before), made.name) {
			text, failed := sources.ReadFile("lua/" + part + ".lua")
			err = errors.Join(err, failed)
			source.Write(text)
		}
		*made.script = redis.NewScript(source.String())
		all.WriteString(source.String())
	}
	return s, rulesOf(all.String()), err
}

var called = regexp.MustCompile(`call\('([A-Z]+)'`)

// rulesOf are the rules of an ACL for the history. A script needs the rights of its own commands too.
func rulesOf(source string) []string {
	rules := []string{"+script|load", "+evalsha", "+get", "+set", "+zscan", "+zrangebyscore", "+hscan", "+info", "+bgrewriteaof"}
	for _, found := range called.FindAllStringSubmatch(source, -1) {
		if rule := "+" + strings.ToLower(found[1]); !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return append([]string{"~weir:*"}, rules...)
}
