package redistest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func TestAReleaseIsWhatItsNameSays(t *testing.T) {
	for _, release := range redistest.Releases() {
		info, err := redistest.Single(t, redistest.WithRelease(release)).Info(context.Background(), "server")
		if err != nil {
			t.Fatal(err)
		}
		product, version, _ := strings.Cut(release, "-")
		if got := info[product+"_version"]; !strings.HasPrefix(got, version+".") {
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
