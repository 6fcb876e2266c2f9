package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// idleLibrary is how long a library is kept after a weir marked it as its own, which each does at its start and about
// every ten minutes. A weir that could not loads its library again.
const idleLibrary = 24 * time.Hour

// versions matches the names that weir gives its libraries.
var versions = script.LibraryPrefix + strings.Repeat("[0-9a-f]", len(script.Function())-len(script.LibraryPrefix))

// tidy marks this weir's library on a server as in use, and removes those of other versions that were not marked for a
// day. Marks are fields of one hash: a library's name, and when it was marked last, in seconds since 1970. What fails
// is left to a later probe.
func (s *Store) tidy(ctx context.Context, on *topology.Servers, server topology.Server, own string) {
	err := tidyLibraries(ctx, server.Client, script.KeyOf(server.Tag, "libraries"), own)
	if err != nil && s.news("libraries of "+server.Name, err.Error()) {
		on.Log().Warn("redis server keeps libraries that older versions of weir have left; to have them removed: "+
			on.ACLLine(server), "server", server.Name, "error", err)
	}
}

func tidyLibraries(ctx context.Context, client *goredis.Client, key, own string) error {
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	if err := markLibraries(ctx, client, key, now, own); err != nil {
		return err
	}
	libraries, err := client.FunctionList(ctx, goredis.FunctionListQuery{LibraryNamePattern: versions}).Result()
	if err != nil {
		return err
	}
	marks, err := marksOf(ctx, client, key)
	if err != nil {
		return err
	}
	var found, idle []string
	for _, library := range libraries {
		at, err := strconv.ParseInt(marks[library.Name], 10, 64)
		delete(marks, library.Name)
		switch {
		case library.Name == own:
		case err != nil: // for the first time
			found = append(found, library.Name)
		case now.Sub(time.Unix(at, 0)) > idleLibrary:
			idle = append(idle, library.Name)
		}
	}
	if err := markLibraries(ctx, client, key, now, found...); err != nil {
		return err
	}
	for _, name := range idle {
		// Another weir may have been quicker.
		if err := client.FunctionDelete(ctx, name).Err(); err != nil && !strings.Contains(err.Error(), "not found") {
			return fmt.Errorf("library %s: %w", name, err)
		}
	}
	delete(marks, own) // it may be gone, and is loaded again
	if gone := slices.AppendSeq(idle, maps.Keys(marks)); len(gone) > 0 {
		return client.HDel(ctx, key, gone...).Err()
	}
	return nil
}

// markLibraries marks libraries as in use.
func markLibraries(ctx context.Context, client *goredis.Client, key string, now time.Time, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	marks := make(map[string]any)
	for _, name := range names {
		marks[name] = now.Unix()
	}
	if err := client.HSet(ctx, key, marks).Err(); err != nil {
		return err
	}
	return client.PExpire(ctx, key, 2*idleLibrary).Err()
}

// marksOf returns all marks, by commands that counting needs, too.
func marksOf(ctx context.Context, client *goredis.Client, key string) (map[string]string, error) {
	names, err := client.HKeys(ctx, key).Result()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	values, err := client.HMGet(ctx, key, names...).Result()
	if err != nil {
		return nil, err
	}
	marks := make(map[string]string)
	for i, name := range names {
		marks[name] = fmt.Sprint(values[i])
	}
	return marks, nil
}
