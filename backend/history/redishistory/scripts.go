package redishistory

import (
	"embed"
	"encoding/binary"

	"github.com/weirproxy/weir/backend/redis/pipeline"
)

//go:embed lua
var sources embed.FS

// scripts are what runs in the servers; see the head of each file.
type scripts struct{ apply, change, due, read, glance, forget, probe, placed *pipeline.Script }

// rights are the ACL rules for the history: for the scripts, and for the commands beside them. readingRights are those
// for a history that is only read.
const (
	rights = "~weir:* +bgrewriteaof +del +evalsha +get +hdel +hget +hgetall +hincrby +hlen +hmget +hscan +hset +info " +
		"+script|load +set +time +zadd +zcard +zrangebyscore +zrem +zscan"
	readingRights = "~weir:* +evalsha +get +hgetall +script|load +time +zscan"
)

// newScripts puts the scripts together from their parts.
func newScripts() scripts {
	script := func(parts ...string) *pipeline.Script {
		source := ""
		for _, part := range parts {
			text, _ := sources.ReadFile("lua/" + part + ".lua") // what is embedded can be read
			source += string(text)
		}
		return pipeline.NewScript(source)
	}
	return scripts{
		apply: script("numbers", "exact", "apply"), change: script("numbers", "change"), due: script("numbers", "due"),
		read: script("numbers", "read"), glance: script("numbers", "glance"), forget: script("numbers", "forget"),
		probe: script("numbers", "probe"), placed: script("placed"),
	}
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
