package redishistory

import (
	"embed"
	"encoding/json"

	"github.com/weirproxy/weir/backend/redis/pipeline"
)

//go:embed lua
var sources embed.FS

// scripts are the Lua scripts; the head of each file describes it.
type scripts struct {
	apply, change, due, read, peek, deleteWriters, probe, command, write *pipeline.Script
	placement, state, dump, put                                          *pipeline.Script // for nodes of a ring
}

// rights are the ACL rules for the history, readingRights those for a history that is only read, movingRights the
// further ones for Move.
const (
	rights = "~weir:* +bgrewriteaof +del +evalsha +get +hdel +hget +hgetall +hincrby +hlen +hmget +hscan +hset +info " +
		"+script|load +set +time +zadd +zcard +zrangebyscore +zrem +zscan"
	readingRights = "~weir:* +evalsha +get +hgetall +script|load +time +zscan"
	movingRights  = " +dump +restore +unlink"
)

// newScripts makes the scripts from their parts.
func newScripts() scripts {
	script := func(parts ...string) *pipeline.Script {
		source := ""
		for _, part := range parts {
			text, _ := sources.ReadFile("lua/" + part + ".lua") // reading an embedded file cannot fail
			source += string(text)
		}
		return pipeline.NewScript(source)
	}
	return scripts{
		apply: script("numbers", "fence", "exact", "apply"), change: script("numbers", "fence", "change"),
		due: script("numbers", "fence", "due"), deleteWriters: script("numbers", "fence", "delete_writers"),
		read: script("numbers", "read"), peek: script("numbers", "peek"), probe: script("numbers", "probe"),
		command: script("numbers", "command"), write: script("numbers", "fence", "command"),
		placement: script("placement"), state: script("state"), dump: script("dump"), put: script("put"),
	}
}

// asJSON returns a value of strings and numbers as JSON, for a script.
func asJSON(value any) []byte {
	text, _ := json.Marshal(value) // cannot fail for strings and numbers
	return text
}
