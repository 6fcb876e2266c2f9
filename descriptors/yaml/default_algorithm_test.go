package yaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// A file must not be refused because of how weir was started, and its author must hear what is ignored.
func TestWhatTheDefaultAlgorithmHasNotIsIgnoredAndTold(t *testing.T) {
	const noPrecision = "precision has no effect: the limit counts by fixed_window, the value of ALGORITHM. " +
		"Give it algorithm: sliding_window, or leave precision out"
	const noBurst = "burst has no effect: the limit counts by sliding_log, the value of ALGORITHM. " +
		"Give it algorithm: token_bucket, or leave burst out"
	for _, test := range []struct {
		by        descriptors.Algorithm
		key, want string
	}{
		{descriptors.FixedWindow, "precision: 1m", noPrecision}, {descriptors.SlidingWindow, "precision: 1m", ""},
		{descriptors.SlidingLog, "burst: 9", noBurst}, {descriptors.TokenBucket, "burst: 9", ""},
	} {
		const plain = "unit: day, requests_per_unit: 5"
		byDefault := Options{Algorithm: test.by}
		c, problems := judge([]File{file("f", under("rate_limit: {"+plain+",\n   "+test.key+"}"))}, byDefault)
		want := ""
		if test.want != "" {
			want = "f:5: domain d, k: " + test.want
		}
		if c == nil || fmt.Sprint(problems) != "["+want+"]" {
			t.Fatalf("%s by %v: got %v, want a configuration and the warning %q", test.key, test.by, problems, want)
		}
		without, _ := judge([]File{file("f", under("rate_limit: {"+plain+"}"))}, byDefault)
		limit := without.Rules()[0].Limits[0]
		if limit.Algorithm != test.by || want != "" && limit != c.Rules()[0].Limits[0] {
			t.Errorf("%s by %v: got %+v, want by that algorithm the limit %+v", test.key, test.by, c.Rules()[0].Limits[0], limit)
		}
	}
}

// Whoever swaps the image or sets ALGORITHM starts with these files, or with the second, which a reader makes of the first.
func TestTheShippedLimitsLoadUnderEachAlgorithmAndAsRatelimit(t *testing.T) {
	shipped := append(read(t, "../../k8s/base/config/shop.yaml"), read(t, "../../helm/weir/files/shop.yaml")...)
	for _, f := range shipped {
		without := strings.ReplaceAll(string(f.Data), "      algorithm: sliding_window\n", "")
		if without == string(f.Data) {
			t.Fatal("the example names no algorithm: this test proves nothing")
		}
		for _, a := range descriptors.Algorithms() {
			for _, format := range []descriptors.KeyFormat{descriptors.KeysOfWeir, descriptors.KeysOfRatelimit} {
				for _, f := range []File{f, file("without", without)} {
					if c, problems := judge([]File{f}, Options{Algorithm: a, Keys: descriptors.Keys{Format: format}}); c == nil || len(c.Rules()) == 0 {
						t.Errorf("by %s, keys of %s: got %v, want the rules of\n%v", a, format, problems, f)
					}
				}
			}
		}
	}
}
