package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/script"
)

// publishedTTL is how long a published value counts, by the clock of Redis.
const publishedTTL = 15 * time.Second

// Publish publishes a process's value for a counter's key, or removes it if it is "", and returns the values of other
// processes by their names. It needs only the ACL rights of counting.
func (s *Store) Publish(ctx context.Context, key, name, value string) (map[string]string, error) {
	hash := publishedKey(key)
	if s.Away(hash) {
		return nil, ErrUnavailable
	}
	now, all := goredis.NewTimeCmd(ctx, "time"), goredis.NewScanCmd(ctx, nil, "hscan", hash, 0, "count", 1000)
	if err := s.Send(ctx, hash, now, all); err != nil {
		return nil, err
	}
	fields, _ := all.Val()
	others, old := make(map[string]string), []any{"hdel", hash, name}
	for i := 1; i < len(fields); i += 2 {
		at, text, _ := strings.Cut(fields[i], " ")
		millis, err := strconv.ParseInt(at, 10, 64)
		if err != nil || now.Val().Sub(time.UnixMilli(millis)).Abs() > publishedTTL {
			old = append(old, fields[i-1])
		} else if fields[i-1] != name {
			others[fields[i-1]] = text
		}
	}
	commands := []goredis.Cmder{goredis.NewIntCmd(ctx, old...)}
	if value != "" {
		commands = append(commands, goredis.NewIntCmd(ctx, "hset", hash, name, strconv.FormatInt(now.Val().UnixMilli(), 10)+" "+value),
			goredis.NewIntCmd(ctx, "pexpire", hash, publishedTTL.Milliseconds()))
	}
	return others, s.Send(ctx, hash, commands...)
}

// publishedKey returns the hash with the published values for a counter's key.
func publishedKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return script.KeyOf(hex.EncodeToString(sum[:8]), "quota")
}
