package redistest

import (
	"strings"
	"testing"
)

// Types starts servers of each REDIS_TYPE, and returns the URL that names them. They end with the test.
var Types = map[string]func(t testing.TB, options ...Option) (url string){
	"single": func(t testing.TB, options ...Option) string { return Single(t, options...).Addr },
	"sentinel": func(t testing.TB, options ...Option) string {
		set := Sentinel(t, options...)
		return set.Master + "," + strings.Join(set.Addrs(), ",")
	},
	"cluster": func(t testing.TB, options ...Option) string {
		return strings.Join(Cluster(t, options...).Addrs(), ",")
	},
	"ring": func(t testing.TB, options ...Option) string {
		var addrs []string
		for _, s := range Ring(t, 3, options...) {
			addrs = append(addrs, s.Addr)
		}
		return strings.Join(addrs, ",")
	},
}
