package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/script"
)

// exchangeLife is how long Redis keeps what processes have said about a key after the last of them.
const exchangeLife = time.Minute

// Exchange leaves under a key of counters what a process says about it, nothing if it is "", and removes what those have
// said that are gone. It returns what all say, by their names. It takes the rights that counting takes.
func (s *Store) Exchange(ctx context.Context, key, name, says string, gone []string) (map[string]string, error) {
	sum := sha256.Sum256([]byte(key))
	place := script.KeyOf(hex.EncodeToString(sum[:8]), "quota")
	if s.Away(place) {
		return nil, ErrUnavailable
	}
	var commands []goredis.Cmder
	for _, one := range gone {
		commands = append(commands, goredis.NewIntCmd(ctx, "hdel", place, one))
	}
	if says == "" {
		commands = append(commands, goredis.NewIntCmd(ctx, "hdel", place, name))
	} else {
		commands = append(commands, goredis.NewIntCmd(ctx, "hset", place, name, says),
			goredis.NewIntCmd(ctx, "pexpire", place, exchangeLife.Milliseconds()))
	}
	all := goredis.NewScanCmd(ctx, nil, "hscan", place, 0, "count", 1000)
	if err := s.Ask(ctx, place, append(commands, all)...); err != nil {
		return nil, err
	}
	fields, _ := all.Val()
	said := make(map[string]string)
	for i := 1; i < len(fields); i += 2 {
		said[fields[i-1]] = fields[i]
	}
	return said, nil
}
