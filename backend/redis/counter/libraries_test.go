package counter

import (
	"slices"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// librariesLike are the names of a server's libraries that match a pattern, sorted.
func librariesLike(t *testing.T, server *redistest.Server, pattern string) (names []string) {
	t.Helper()
	all, err := server.Client().FunctionList(t.Context(), goredis.FunctionListQuery{LibraryNamePattern: pattern}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range all {
		names = append(names, library.Name)
	}
	slices.Sort(names)
	return names
}
