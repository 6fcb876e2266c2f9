package redistest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func TestAReleaseIsWhatItsNameSays(t *testing.T) {
	releases := redistest.Releases(t)
	if len(releases) == 0 {
		t.Error("there is no release to test on: tests over them would prove nothing")
	}
	for _, release := range releases {
		info, err := redistest.Single(t, redistest.WithRelease(release)).Info(context.Background(), "server")
		if err != nil {
			t.Fatal(err)
		}
		product, version, _ := strings.Cut(release, "-")
		if release == "" {
			product = "redis" // which a Valkey says, too
		}
		if got := info[product+"_version"]; got == "" || version != "" && !strings.HasPrefix(got, version+".") {
			t.Errorf("the server of %s says that its version is %q", release, got)
		}
	}
}

func TestAnUnknownReleaseFailsWithTheWayOut(t *testing.T) {
	r := recorder{TB: t}
	told := r.run(func(t testing.TB) { redistest.Single(t, redistest.WithRelease("redis-0.1")) })
	if want := "redis-0.1/redis-server is not there: run make tools"; !r.failed || !strings.HasSuffix(told, want) {
		t.Errorf("without the server a test fails: %v, and says %q, want true and ... %s", r.failed, told, want)
	}
}
