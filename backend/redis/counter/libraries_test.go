package counter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
)

// shelf is where the libraries of a server and their marks are looked at.
type shelf struct {
	server *redistest.Server
	user   *goredis.Client // with no rights but those that counting takes
	now    time.Time       // of the server
}

const marksKey = "weir:{probe 0}libraries"

func newShelf(t *testing.T, release string) *shelf {
	t.Helper()
	server := redistest.Single(t, redistest.WithRelease(release), redistest.WithACL("ann", secret, countingRules()...))
	now, err := server.Client().Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{server, ownerOf(t, redis.Config{URL: server.Addr, Auth: "ann:" + secret, Timeout: ample}), now}
}

// put loads a library.
func (s *shelf) put(t *testing.T, name string) {
	t.Helper()
	code := fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function() return 1 end)", name, name)
	if err := s.server.Client().FunctionLoad(t.Context(), code).Err(); err != nil {
		t.Fatal(err)
	}
}

// mark marks a library as in use some time ago.
func (s *shelf) mark(t *testing.T, name string, ago time.Duration) {
	t.Helper()
	if err := s.server.Client().HSet(t.Context(), marksKey, name, s.now.Add(-ago).Unix()).Err(); err != nil {
		t.Fatal(err)
	}
}

// marks are how long ago libraries were marked as in use.
func (s *shelf) marks(t *testing.T) map[string]time.Duration {
	t.Helper()
	all, err := s.server.Client().HGetAll(t.Context(), marksKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	ago := make(map[string]time.Duration)
	for name, mark := range all {
		at, err := strconv.ParseInt(mark, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ago[name] = s.now.Sub(time.Unix(at, 0))
	}
	return ago
}

// isFresh reports whether a mark is there, from after the test began.
func isFresh(marks map[string]time.Duration, name string) bool {
	ago, found := marks[name]
	return found && ago < time.Minute
}

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

// withFunctions runs a test on each release that has functions, in the short form on that on PATH.
func withFunctions(t *testing.T, f func(t *testing.T, release string)) {
	t.Helper()
	for _, release := range append(redistest.Releases(t), "") {
		if release == "" || release != oldest && !testing.Short() {
			t.Run(cmp.Or(release, "on PATH"), func(t *testing.T) {
				t.Parallel()
				f(t, release)
			})
		}
	}
}

func TestOnlyWhatNobodyHasMarkedForADayIsRemoved(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, release string) {
		own, used, idle, found := libraryOf("own"), libraryOf("used"), libraryOf("idle"), libraryOf("found")
		foreign := []string{"other", "weir_stats", "weird_0123456789abcdef", "weir_0123456789abcdef0"}
		s := newShelf(t, release)
		for _, name := range append(foreign, own, used, idle, found) {
			s.put(t, name)
		}
		for _, name := range append(foreign, own, idle, libraryOf("gone")) {
			s.mark(t, name, idleLibrary+time.Hour)
		}
		s.mark(t, used, idleLibrary-time.Hour)
		tidy := func(removed string) {
			t.Helper()
			before := librariesLike(t, s.server, "*")
			if err := tidyLibraries(t.Context(), s.user, marksKey, own); err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(before, func(name string) bool { return name == removed })
			if got := librariesLike(t, s.server, "*"); !slices.Equal(got, want) {
				t.Errorf("the libraries are\n%v, want those without %s:\n%v", got, removed, want)
			}
		}
		tidy(idle)
		marks := s.marks(t)
		if !isFresh(marks, own) || !isFresh(marks, found) || marks[used] < idleLibrary-2*time.Hour || len(marks) != 3 {
			t.Errorf("the marks are %v ago; want one of now for %s, its own, and for %s, found for the first time, that of %s "+
				"as it was, and no others", marks, own, found, used)
		}
		if ttl, err := s.server.Client().TTL(t.Context(), marksKey).Result(); err != nil || ttl <= idleLibrary || ttl > 2*idleLibrary {
			t.Errorf("the marks live for %v, %v; want longer than any is needed, and not for ever", ttl, err)
		}
		tidy("")
		s.mark(t, found, idleLibrary+time.Hour)
		tidy(found)
		s.mark(t, used, idleLibrary+time.Hour)
		tidy(used)
		if marks := s.marks(t); !isFresh(marks, own) || len(marks) != 1 {
			t.Errorf("the marks are %v, want one of %s only", slices.Collect(maps.Keys(marks)), own)
		}
	})
}

// All weirs of a rolling update find the same libraries to remove.
func TestManyWeirsTidyAtOnce(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, release string) {
		s := newShelf(t, release)
		for i := range 40 {
			name := libraryOf(fmt.Sprint("idle ", i))
			s.put(t, name)
			s.mark(t, name, idleLibrary+time.Hour)
		}
		var tidying sync.WaitGroup
		for i := range 8 {
			tidying.Go(func() {
				if err := tidyLibraries(t.Context(), s.user, marksKey, libraryOf(fmt.Sprint("own ", i))); err != nil {
					t.Error(err)
				}
			})
		}
		tidying.Wait()
		if got := librariesLike(t, s.server, "*"); len(got) > 0 {
			t.Errorf("the libraries are %v, want none", got)
		}
	})
}

// What a weir has not marked for a day, as one that could not reach the server, is removed by another version. It loads
// it again when it counts, and the other lets that be.
func TestAWeirWhoseLibraryWasRemovedLoadsItAgain(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, release string) {
		s := newShelf(t, release)
		c := redis.Config{URL: s.server.Addr, Auth: "ann:" + secret}
		older := openedWith(t, c, nil, version("older"))
		if !isFresh(s.marks(t), libraryOf("older")) {
			t.Fatal("the older weir has not marked its library")
		}
		b := newBurden(t, "key")
		b.call(t, older)
		s.mark(t, libraryOf("older"), idleLibrary+time.Hour)
		newer := openedWith(t, c, nil, version("newer"))
		if got := librariesOf(t, s.server); !slices.Equal(got, []string{libraryOf("newer")}) {
			t.Fatalf("the libraries are %v, want that of the newer weir only", got)
		}
		b.call(t, older)
		b.call(t, newer)
		b.exact(t, newer)
		if err := tidyLibraries(t.Context(), s.user, marksKey, libraryOf("newer")); err != nil {
			t.Error(err)
		}
		if got := librariesOf(t, s.server); len(got) != 2 || !isFresh(s.marks(t), libraryOf("older")) {
			t.Errorf("the libraries are %v with the marks %v; want that of the older weir among them, and marked", got, s.marks(t))
		}
	})
}

// Whoever may not look at libraries or remove them counts by one all the same, and marks it, so that others keep it.
func TestCountingNeedsNoRightToTidy(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"+function|list", "+function|delete"} {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, "")
			s.put(t, libraryOf("idle"))
			s.mark(t, libraryOf("idle"), idleLibrary+time.Hour)
			if err := s.server.Client().ACLSetUser(context.Background(), "ann", "-"+missing[1:]).Err(); err != nil {
				t.Fatal(err)
			}
			c := redis.Config{URL: s.server.Addr, Auth: "ann:" + secret}
			store := opened(t, c, nil)
			b := newBurden(t, "key")
			for range 10 {
				b.call(t, store)
			}
			b.exact(t, store)
			if got := librariesOf(t, s.server); len(got) != 2 {
				t.Errorf("the libraries are %v, want two", got)
			}
			if !isFresh(s.marks(t), script.Function()) {
				t.Errorf("the marks are %v, want one of now for %s", s.marks(t), script.Function())
			}
			stats, err := s.server.Info(t.Context(), "commandstats")
			if err != nil || stats["cmdstat_fcall"] == "" || stats["cmdstat_evalsha"] != "" {
				t.Errorf("FCALL: %q, EVALSHA: %q, %v; want calls of functions only", stats["cmdstat_fcall"], stats["cmdstat_evalsha"], err)
			}
		})
	}
}
