package redis

import (
	"context"
	"errors"
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
func (s *Store) tidy(ctx context.Context, server topology.Server, own string) {
	err := tidyLibraries(ctx, server.Client, script.KeyOf(server.Tag, "libraries"), own)
	if err != nil && s.news("libraries of "+server.Name, err.Error()) {
		s.servers.Log().Warn("redis server keeps libraries that older versions of weir have left; to have them removed: "+
			s.servers.ACLLine(server), "server", server.Name, "error", err)
	}
}

func tidyLibraries(ctx context.Context, client *goredis.Client, key, own string) error {
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	mark := func(name string) error {
		return errors.Join(client.HSet(ctx, key, name, now.Unix()).Err(), client.PExpire(ctx, key, 2*idleLibrary).Err())
	}
	if err := mark(own); err != nil {
		return err
	}
	libraries, err := client.FunctionList(ctx, goredis.FunctionListQuery{LibraryNamePattern: versions}).Result()
	if err != nil {
		return err
	}
	hash := wholeHash(ctx, key)
	if err := client.Process(ctx, hash); err != nil {
		return err
	}
	marks := fieldsOf(hash)
	for _, library := range libraries {
		name := library.Name
		at, unmarked := strconv.ParseInt(marks[name], 10, 64)
		switch {
		case unmarked != nil: // for the first time
			err = mark(name)
		case now.Sub(time.Unix(at, 0)) > idleLibrary:
			err = client.FunctionDelete(ctx, name).Err()
			if err == nil || strings.Contains(err.Error(), "not found") { // another weir was quicker
				err = client.HDel(ctx, key, name).Err()
			}
		}
		if err != nil {
			return fmt.Errorf("library %s: %w", name, err)
		}
		delete(marks, name)
	}
	delete(marks, own) // it may be gone, and is loaded again
	if gone := slices.Collect(maps.Keys(marks)); len(gone) > 0 {
		return client.HDel(ctx, key, gone...).Err()
	}
	return nil
}

// wholeHash is a command that reads a hash of up to thousands of fields, by a right that counting needs, too.
func wholeHash(ctx context.Context, key string) *goredis.ScanCmd {
	return goredis.NewScanCmd(ctx, nil, "hscan", key, 0, "count", 10_000)
}

// fieldsOf returns what wholeHash has read.
func fieldsOf(hash *goredis.ScanCmd) map[string]string {
	fields := make(map[string]string)
	list, _ := hash.Val()
	for i := 1; i < len(list); i += 2 {
		fields[list[i-1]] = list[i]
	}
	return fields
}
