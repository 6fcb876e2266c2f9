package counter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
)

// idleLibrary is how long a library is kept that no weir has marked as its own. Each does so at its start and about
// every ten minutes. A weir that could not, and goes on later, finds its library missing and loads it again.
const idleLibrary = 24 * time.Hour

// tidy marks this weir's library on a server as in use, and removes those of other versions that nobody has marked for a
// day. The marks are fields of one hash: a library's name, and when it was marked last, in seconds since 1970. What
// cannot be done now is left to a later probe, of this weir or another.
func (s *Store) tidy(ctx context.Context, on *redis.Servers, server redis.Server, own string) {
	if err := tidyLibraries(ctx, server.Client, script.KeyOf(server.Tag, "libraries"), own); err != nil {
		on.Log().Debug("redis server: libraries of older versions are left alone", "server", server.Name, "error", err)
	}
}

func tidyLibraries(ctx context.Context, client *goredis.Client, key, own string) error {
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	libraries, err := client.FunctionList(ctx, goredis.FunctionListQuery{LibraryNamePattern: script.LibraryPrefix + "*"}).Result()
	if err != nil {
		return err
	}
	marks, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	marked := map[string]any{own: now.Unix()}
	for _, library := range libraries {
		at, err := strconv.ParseInt(marks[library.Name], 10, 64)
		delete(marks, library.Name)
		switch {
		case library.Name == own:
		case err != nil: // found for the first time
			marked[library.Name] = now.Unix()
		case now.Sub(time.Unix(at, 0)) > idleLibrary:
			if err := client.FunctionDelete(ctx, library.Name).Err(); err != nil {
				return fmt.Errorf("library %s: %w", library.Name, err)
			}
			marks[library.Name] = ""
		}
	}
	delete(marks, own)
	if gone := slices.Collect(maps.Keys(marks)); len(gone) > 0 {
		if err := client.HDel(ctx, key, gone...).Err(); err != nil {
			return err
		}
	}
	if err := client.HSet(ctx, key, marked).Err(); err != nil {
		return err
	}
	return client.PExpire(ctx, key, 2*idleLibrary).Err()
}
