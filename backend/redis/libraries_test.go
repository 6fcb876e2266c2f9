package redis

import (
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// version is the script of another version of weir, which differs from this one's by a comment.
func version(name string) *pipeline.Script {
	library := libraryOf(name)
	return pipeline.NewScript(script.Source()+"-- "+name).
		WithLibrary(strings.ReplaceAll(script.Library(), script.Function(), library), library)
}

// libraryOf is what a version calls its library.
func libraryOf(version string) string {
	return fmt.Sprintf("%s%x", script.LibraryPrefix, sha1.Sum([]byte(version)))[:len(script.Function())]
}

// shelf is where the libraries of a server and their marks are looked at.
type shelf struct {
	*testing.T
	server *redistest.Server
	user   topology.Config // with no rights but those that counting takes
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
	return &shelf{t, server, topology.Config{URL: server.Addr, Auth: "ann:" + secret, Timeout: ample}, now}
}

// put loads libraries.
func (s *shelf) put(names ...string) {
	s.Helper()
	for _, name := range names {
		code := fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function() return 1 end)", name, name)
		if err := s.server.Client().FunctionLoad(s.Context(), code).Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// mark marks libraries as in use some time ago.
func (s *shelf) mark(ago time.Duration, names ...string) {
	s.Helper()
	for _, name := range names {
		if err := s.server.Client().HSet(s.Context(), marksKey, name, s.now.Add(-ago).Unix()).Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// tidy removes what nobody uses, as a weir does whose own library has this name.
func (s *shelf) tidy(own string) {
	s.Helper()
	if err := tidyLibraries(s.Context(), ownerOf(s, s.user), marksKey, own); err != nil {
		s.Error(err)
	}
}

// marks are how long ago libraries were marked as in use.
func (s *shelf) marks() map[string]time.Duration {
	s.Helper()
	all, err := s.server.Client().HGetAll(s.Context(), marksKey).Result()
	ago := make(map[string]time.Duration)
	for name, mark := range all {
		at, failed := strconv.ParseInt(mark, 10, 64)
		ago[name], err = s.now.Sub(time.Unix(at, 0)), errors.Join(err, failed)
	}
	if err != nil {
		s.Fatal(err)
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
		s.put(append(foreign, own, used, idle, found)...)
		s.mark(idleLibrary+time.Hour, append(foreign, own, idle, libraryOf("gone"))...)
		s.mark(idleLibrary-time.Hour, used)
		wantRemoved := func(removed string) {
			t.Helper()
			before := librariesLike(t, s.server, "*")
			s.tidy(own)
			want := slices.DeleteFunc(before, func(name string) bool { return name == removed })
			if got := librariesLike(t, s.server, "*"); !slices.Equal(got, want) {
				t.Errorf("the libraries are\n%v, want those without %s:\n%v", got, removed, want)
			}
		}
		wantRemoved(idle)
		marks := s.marks()
		if !isFresh(marks, own) || !isFresh(marks, found) || marks[used] < idleLibrary-2*time.Hour || len(marks) != 3 {
			t.Errorf("the marks are %v ago; want one of now for %s, its own, and for %s, found for the first time, that of %s "+
				"as it was, and no others", marks, own, found, used)
		}
		if ttl, err := s.server.Client().TTL(t.Context(), marksKey).Result(); err != nil || ttl <= idleLibrary || ttl > 2*idleLibrary {
			t.Errorf("the marks live for %v, %v; want longer than any is needed, and not for ever", ttl, err)
		}
		wantRemoved("")
		for _, name := range []string{found, used} {
			s.mark(idleLibrary+time.Hour, name)
			wantRemoved(name)
		}
		if marks := s.marks(); !isFresh(marks, own) || len(marks) != 1 {
			t.Errorf("the marks are %v, want one of %s only", marks, own)
		}
	})
}

// All weirs of a rolling update find the same libraries to remove.
func TestManyWeirsTidyAtOnce(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, release string) {
		s := newShelf(t, release)
		for i := range 40 {
			s.put(libraryOf(fmt.Sprint("idle ", i)))
			s.mark(idleLibrary+time.Hour, libraryOf(fmt.Sprint("idle ", i)))
		}
		var tidying sync.WaitGroup
		for i := range 8 {
			tidying.Go(func() { s.tidy(libraryOf(fmt.Sprint("own ", i))) })
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
		older := openedWith(t, s.user, nil, version("older"))
		if !isFresh(s.marks(), libraryOf("older")) {
			t.Fatal("the older weir has not marked its library")
		}
		b := newBurden(t, "key")
		b.call(t, older)
		s.mark(idleLibrary+time.Hour, libraryOf("older"))
		newer := openedWith(t, s.user, nil, version("newer"))
		if got := librariesOf(t, s.server); !slices.Equal(got, []string{libraryOf("newer")}) {
			t.Fatalf("the libraries are %v, want that of the newer weir only", got)
		}
		b.call(t, older)
		b.call(t, newer)
		b.exact(t, newer)
		s.tidy(libraryOf("newer"))
		if got := librariesOf(t, s.server); len(got) != 2 || !isFresh(s.marks(), libraryOf("older")) {
			t.Errorf("the libraries are %v with the marks %v; want that of the older weir among them, and marked", got, s.marks())
		}
	})
}

// Whoever may not look at libraries or remove them counts by one all the same, and marks it, so that others keep it.
func TestCountingNeedsNoRightToTidy(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"function|list", "function|delete"} {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, "")
			s.put(libraryOf("idle"))
			s.mark(idleLibrary+time.Hour, libraryOf("idle"))
			if err := s.server.Client().ACLSetUser(t.Context(), "ann", "-"+missing).Err(); err != nil {
				t.Fatal(err)
			}
			store, b := opened(t, s.user, nil), newBurden(t, "key")
			b.call(t, store)
			b.exact(t, store)
			if got := librariesOf(t, s.server); len(got) != 2 || !isFresh(s.marks(), script.Function()) {
				t.Errorf("the libraries are %v with the marks %v; want two, and one of now for %s", got, s.marks(), script.Function())
			}
			if calls := callsOf(t, s.server); calls["fcall"] == 0 || calls["evalsha"] > 0 {
				t.Errorf("it was called by %v; want calls of functions only", calls)
			}
		})
	}
}
