package dropin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// wantRules waits until the lines of /rlconfig hold these.
func wantRules(t *testing.T, promise, url string, lines ...string) {
	t.Helper()
	weirtest.Eventually(t, promise, func() error {
		text, err := weirtest.Get(url)
		for _, line := range lines {
			if err == nil && !slices.Contains(strings.Split(text, "\n"), line) {
				err = fmt.Errorf("/rlconfig prints\n%s\nwant a line\n%s", text, line)
			}
		}
		return err
	})
}

// counted returns the sum of the counts in Redis whose keys begin so: there is one for each window.
func counted(t *testing.T, server *redistest.Server, stem string) int {
	t.Helper()
	keys, err := server.Client().Keys(t.Context(), stem+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, key := range keys {
		n, err := server.Client().Get(t.Context(), key).Int()
		if err != nil {
			t.Fatalf("the count at %s: %v", key, err)
		}
		sum += n
	}
	return sum
}
