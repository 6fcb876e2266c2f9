package yaml

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// A file must not be refused because of how weir was started, and its author must hear what is ignored.
func TestWhatTheDefaultAlgorithmHasNotIsIgnoredAndTold(t *testing.T) {
	const (
		noPrecision = "precision has no effect: the limit counts by %, the value of ALGORITHM. Give it algorithm: sliding_window, " +
			"or leave precision out"
		noBurst = "burst has no effect: the limit counts by %, the value of ALGORITHM. Give it algorithm: token_bucket, " +
			"or leave burst out"
	)
	for _, a := range descriptors.Algorithms() {
		for key, test := range map[string]struct {
			of   descriptors.Algorithm
			want string
		}{"precision: 1m": {descriptors.SlidingWindow, noPrecision}, "burst: 9": {descriptors.TokenBucket, noBurst}} {
			t.Run(a.String()+" "+key, func(t *testing.T) {
				fields := "unit: day, requests_per_unit: 5,\n   " + key
				c, problems := judge([]File{file("f", under("rate_limit: {"+fields+"}"))}, Options{Algorithm: a})
				want := ""
				if a != test.of {
					want = "f:5: domain d, k: " + strings.ReplaceAll(test.want, "%", a.String())
				}
				if c == nil || len(problems) > 1 || fmt.Sprint(problems) != "["+want+"]" {
					t.Fatalf("got %v, want a configuration and the warning %q", problems, want)
				}
				named := under("rate_limit: {algorithm: " + a.String() + ", " + fields + "}")
				if _, problems := judge([]File{file("f", named)}, Options{}); (problems.Err() != nil) != (a != test.of) {
					t.Errorf("a limit that names its algorithm itself: got %v", problems)
				}
				plain, _ := judge([]File{file("f", under("rate_limit: {unit: day, requests_per_unit: 5}"))}, Options{Algorithm: a})
				if got := plain.Rules()[0].Limits[0].Algorithm; got != a {
					t.Errorf("a limit that names no algorithm counts by %v, want %v", got, a)
				}
				if a != test.of && plain.Rules()[0].Limits[0] != c.Rules()[0].Limits[0] {
					t.Errorf("got %+v, want the limit as it is without what is ignored", c.Rules()[0].Limits[0])
				}
			})
		}
	}
}

// Whoever swaps the image or sets ALGORITHM starts with these files.
func TestTheShippedLimitsLoadUnderEachAlgorithmAndAsRatelimit(t *testing.T) {
	for _, name := range []string{"../../k8s/base/config/shop.yaml", "../../helm/weir/files/shop.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// The example must not hang on its algorithm line: a reader makes the second file of it.
		without := strings.ReplaceAll(string(data), "      algorithm: sliding_window\n", "")
		if without == string(data) {
			t.Fatal("the example names no algorithm: this test proves nothing")
		}
		for _, a := range descriptors.Algorithms() {
			for _, format := range []descriptors.KeyFormat{descriptors.KeysOfWeir, descriptors.KeysOfRatelimit} {
				for _, text := range []string{string(data), without} {
					c, problems := judge([]File{file(name, text)}, Options{Algorithm: a, Keys: descriptors.Keys{Format: format}})
					if c == nil || len(c.Rules()) == 0 {
						t.Errorf("%s by %s, keys of %s: got %v, want its rules of\n%s", name, a, format, problems, text)
					}
				}
			}
		}
	}
}
