package descriptors_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// patterned returns a configuration of a rule for each of n values of one key, as format makes them of their number.
func patterned(key, format string, n int) *descriptors.Config {
	shop := &descriptors.Domain{Name: "shop", Where: "shop.yaml:1"}
	for i := range n {
		value, where := strings.ReplaceAll(format, "%d", fmt.Sprint(i)), fmt.Sprint("shop.yaml:", 3+i)
		node, _ := shop.Root.Add(key, value, where)
		shop.SetRule(node, &descriptors.Rule{Path: descriptors.PathSegment(key, value), Where: where, Unlimited: true})
	}
	return descriptors.NewConfig(descriptors.Keys{}, []*descriptors.Domain{shop}, nil)
}

// allFirst holds the first part of each pattern a%d*b, and no b.
func allFirst(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprint(&b, "a", i)
	}
	return b.String()
}

func BenchmarkMatchPatterns(b *testing.B) {
	const long, short = 60_000, 100
	for _, bench := range []struct {
		name, key, format string
		patterns          int
		value             string
	}{
		{"5000 inner, long, near misses", "path", "*bot%d*", 5000, strings.Repeat("bot", long/3)},
		{"5000 inner, long, far", "path", "*bot%d*", 5000, strings.Repeat("x", long)},
		{"5000 starred keys, long", "p*", "*bot%d*", 5000, strings.Repeat("bot", long/3)},
		{"5000 of two parts, long, all first parts", "path", "*a%d*b*", 5000, allFirst(10_000)},
		{"5000 inner, short", "path", "*bot%d*", 5000, strings.Repeat("bot/", short/4)},
		{"100 inner, short", "path", "*bot%d*", 100, strings.Repeat("bot/", short/4)},
		{"10 inner, short", "path", "*bot%d*", 10, strings.Repeat("bot/", short/4)},
		{"10 inner, short, far", "path", "*bot%d*", 10, strings.Repeat("x", short)},
		{"10 inner, long", "path", "*bot%d*", 10, strings.Repeat("bot", long/3)},
		{"5000 long words, long", "path", "*" + strings.Repeat("bot", 25) + "%d*", 5000, strings.Repeat("bot", long/3)},
		{"15 long words, long", "path", "*" + strings.Repeat("bot", 25) + "%d*", 15, strings.Repeat("bot", long/3)},
		{"4 inner, short", "path", "*bot%d*", 4, strings.Repeat("bot/", short/4)},
		{"4 inner, long", "path", "*bot%d*", 4, strings.Repeat("bot", long/3)},
		{"4 inner, long, far", "path", "*bot%d*", 4, strings.Repeat("x", long)},
		{"5000 suffixes, short", "path", "*.x%d", 5000, strings.Repeat("bot/", short/4)},
		{"5000 suffixes, long", "path", "*.x%d", 5000, strings.Repeat("bot", long/3)},
		{"5000 prefixes, short", "path", "/x%d*", 5000, "/x4321/" + strings.Repeat("y", short)},
		{"1 prefix, short", "path", "/x*", 1, "/x4321/" + strings.Repeat("y", short)},
		{"1 prefix, long", "path", "/x*", 1, "/x4321/" + strings.Repeat("y", long)},
		{"5000 exact, long", "path", "/x%d", 5000, strings.Repeat("y", long)},
	} {
		c := patterned(bench.key, bench.format, bench.patterns)
		d := descriptors.Descriptor{{Key: "path", Value: bench.value}}
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Match("shop", d)
			}
		})
	}
}

func BenchmarkAppendKeyOfLongValue(b *testing.B) {
	d := descriptors.Descriptor{{Key: "path", Value: strings.Repeat("v", 60_000)}}
	for _, format := range []descriptors.KeyFormat{descriptors.KeysOfWeir, descriptors.KeysOfRatelimit} {
		b.Run(format.String(), func(b *testing.B) {
			limit := descriptors.Limit{Algorithm: descriptors.FixedWindow, Multiplier: 1}
			m := descriptors.NewConfig(descriptors.Keys{Format: format}, nil, nil).Match("shop", d).ForOverride(&limit, 0)
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = m.AppendKey(dst[:0], "shop", d)
			}
		})
	}
}
