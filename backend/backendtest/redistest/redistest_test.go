package redistest

import (
	"context"
	"os"
	"strings"
	"testing"
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
