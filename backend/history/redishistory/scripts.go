package redishistory

import (
	"embed"
	"encoding/binary"
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

// packed is an array in MessagePack, which scripts unpack quicker than anything that Lua could read itself.
type packed []byte

// newPacked begins an array of n values.
func newPacked(n int) packed {
	const array32 = 0xdd
	return binary.BigEndian.AppendUint32(packed{array32}, uint32(n))
}

func (p packed) text(s string) packed {
	const shortText, text8, text32 = 0xa0, 0xd9, 0xdb
	switch {
	case len(s) < 32:
		p = append(p, shortText|byte(len(s)))
	case len(s) < 256:
		p = append(p, text8, byte(len(s)))
	default:
		p = binary.BigEndian.AppendUint32(append(p, text32), uint32(len(s)))
	}
	return append(p, s...)
}

func (p packed) number(n int64) packed {
	const int64Value = 0xd3
	return binary.BigEndian.AppendUint64(append(p, int64Value), uint64(n))
}

// texts returns an array of texts.
func texts(all []string) packed {
	p := newPacked(len(all))
	for _, text := range all {
		p = p.text(text)
	}
	return p
}
