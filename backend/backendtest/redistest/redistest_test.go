package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

var ctx = context.Background()

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// orphanMaker is the variable that makes this test binary start a server and wait to be killed.
const orphanMaker = "REDISTEST_ORPHAN"

func TestNoServerOutlivesItsTests(t *testing.T) {
	if dir := os.Getenv(orphanMaker); dir != "" {
		s, err := StartSingle(dir)
		must(t, err)
		fmt.Printf("started at %s\n", s.Addr)
		select {}
	}
	tests := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	tests.Env = append(os.Environ(), orphanMaker+"="+t.TempDir(), "TMPDIR="+t.TempDir())
	run, err := process.Launch("a test", tests, new(process.Output), "started at 127.0.0.1:")
	must(t, err)
	_, rest, _ := strings.Cut(run.Log.String(), "started at ")
	server := redis.NewClient(&redis.Options{Addr: strings.Fields(rest)[0], MaxRetries: -1})
	defer server.Close()
	must(t, server.Ping(ctx).Err())
	run.Kill()
	process.Eventually(t, "the server ends with its tests, else they pile up on whoever stops tests", func() error {
		if err := server.Ping(ctx).Err(); err == nil {
			return fmt.Errorf("it answers")
		}
		return nil
	})
}

func TestAReleaseIsWhatItsNameSays(t *testing.T) {
	t.Parallel()
	releases := Releases(t)
	if len(releases) == 0 {
		t.Error("there is no release to test on: tests over them would prove nothing")
	}
	for _, release := range releases {
		info, err := Single(t, WithRelease(release)).Info(ctx, "server")
		must(t, err)
		product, version, _ := strings.Cut(release, "-")
		if release == "" {
			product = "redis" // which a Valkey says, too
		}
		if got := info[product+"_version"]; got == "" || version != "" && !strings.HasPrefix(got, version+".") {
			t.Errorf("the server of %s says that its version is %q", release, got)
		}
	}
}

func TestAFailoverOfSentinelsLeavesAReplica(t *testing.T) {
	t.Parallel()
	set := Sentinel(t)
	old := set.Primary(t)
	if next := set.Failover(t); next == old || set.Primary(t) != next {
		t.Errorf("after a failover from %s the primary is %s", old.Addr, next.Addr)
	}
	if err := old.Client().Set(ctx, "k", "w", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("the old primary answers a write with %v, want READONLY", err)
	}
}

func TestAClusterMovesASlotStepByStepAndFailsOver(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	keys := []string{"{user}:0", "{user}:1", "{user}:2", "{user}:3", "{user}:4"}
	from := c.NodeOf(t, keys[0])
	for _, key := range keys {
		must(t, from.Client().Set(ctx, key, "v", 0).Err())
	}
	all := c.Primaries(t)
	to := all[slices.IndexFunc(all, func(s *Server) bool { return s != from })]
	firstWord := func(err error) string {
		if err == nil || err == redis.Nil {
			return "OK"
		}
		word, _, _ := strings.Cut(err.Error(), " ")
		return word
	}
	var got []string
	c.MigrateSlot(t, c.SlotOf(t, keys[0]), from, to, func(phase Phase) {
		answers := make(map[string]int)
		for _, key := range keys {
			answers[firstWord(from.Client().Get(ctx, key).Err())]++
		}
		got = append(got, fmt.Sprintf("%s: %v, all %s, a new one %s", phase, answers,
			firstWord(from.Client().MGet(ctx, keys...).Err()), firstWord(from.Client().Get(ctx, "{user}:new").Err())))
	})
	if want := []string{
		"migrating: map[OK:5], all OK, a new one ASK",
		"half moved: map[ASK:2 OK:3], all TRYAGAIN, a new one ASK",
		"all moved: map[ASK:5], all ASK, a new one ASK",
		"done: map[MOVED:5], all MOVED, a new one MOVED",
	}; !slices.Equal(got, want) {
		t.Errorf("the old owner answers in each phase\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	planned := c.Failover(t, to)
	if got := c.NodeOf(t, keys[0]); planned == to || got != planned {
		t.Errorf("after a failover of %s, %s has its slots and %s was said to", to.Addr, got.Addr, planned.Addr)
	}
}
