package redishistory

import (
	"embed"
	"encoding/json"
	"slices"

	"github.com/weirproxy/weir/backend/redis/pipeline"
)

//go:embed lua
var sources embed.FS

// scripts are what runs in the servers; see the head of each file.
type scripts struct{ apply, change, due, read, glance, forget, probe, placed *pipeline.Script }

// readingRules are the ACL rules for a history that is only read.
var readingRules = []string{"~weir:*", "+evalsha", "+get", "+hgetall", "+script|load", "+time", "+zscan"}

// newScripts puts the scripts together from their parts, and returns the ACL rules for the history: for the scripts,
// and for the commands beside them.
func newScripts() (s scripts, rules []string) {
	all := ""
	script := func(parts ...string) *pipeline.Script {
		source := ""
		for _, part := range parts {
			text, _ := sources.ReadFile("lua/" + part + ".lua") // what is embedded can be read
			source += string(text)
		}
		all += source
		return pipeline.NewScript(source)
	}
	s = scripts{
		apply: script("numbers", "exact", "apply"), change: script("numbers", "change"), due: script("numbers", "due"),
		read: script("numbers", "read"), glance: script("numbers", "glance"), forget: script("numbers", "forget"),
		probe: script("numbers", "probe"), placed: script("placed"),
	}
	rules = append(pipeline.RulesOf(all),
		"+script|load", "+evalsha", "+get", "+set", "+zscan", "+hscan", "+info", "+bgrewriteaof")
	slices.Sort(rules)
	return s, append([]string{"~weir:*"}, slices.Compact(rules)...)
}

// packed is a list in JSON, for a script. Of texts and numbers, it always can be written.
func packed(list any) []byte {
	text, _ := json.Marshal(list)
	return text
}
