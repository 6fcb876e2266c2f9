package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

var (
	// family matches names that are meant for weir: its parts have these beginnings.
	family = regexp.MustCompile(`^(REDIS|GRPC|RUNTIME|CONFIG|MEMCACHE|STATSD|HISTORY|XDS|RLQS|LIMIT|PROMETHEUS|ADMIN|DENIAL|DRAIN|TRACING|DOG_STATSD)_`)
	// foreign matches NAME=VALUE of variables in these families that Kubernetes sets for Services, or that gRPC reads.
	foreign = regexp.MustCompile(`^[^=]+_(SERVICE_(HOST|PORT)(_|=)|PORT_\d+_|PORT=\w+://)|^GRPC_(GO|XDS|EXPERIMENTAL|ENFORCE|DEFAULT|DNS|POLL|TRACE|VERBOSITY)[_=]`)
)

// unread returns the variables that are meant for weir by their names, and that it does not read, sorted.
func (e Environment) unread() (names []string) {
	read := Names()
	for _, name := range slices.Sorted(maps.Keys(e)) {
		known := slices.Contains(read, name) || strings.HasPrefix(name, "DOG_STATSD_MOGRIFIER_") || e.isForeign(name)
		for _, group := range ineffective {
			known = known || slices.ContainsFunc(strings.Fields(group.names), func(p string) bool { return strings.HasPrefix(name, p) })
		}
		plain := strings.TrimPrefix(name, own)
		slip := func(right string) bool { return isSlip(plain, right) }
		if !known && e[name] != "" && (family.MatchString(plain) || slices.ContainsFunc(read, slip)) {
			names = append(names, name)
		}
	}
	return names
}

// own is what programs of others put before the names of their variables.
const own = "WEIR_"

// isForeign reports whether a variable is another's, whatever its name begins with.
func (e Environment) isForeign(name string) bool { return foreign.MatchString(name + "=" + e[name]) }

// isSlip reports whether a wrong name is the right one but for a letter or, in a long name that begins alike, two. Many
// words are a letter from one as short as HOST: there it must be one letter more.
func isSlip(wrong, right string) bool {
	if more := len(wrong) - len(right); more < -2 || more > 2 {
		return false
	}
	letters := descriptors.Distance(wrong, right)
	switch {
	case len(right) > 8 && letters == 2:
		return wrong[0] == right[0]
	case len(right) < 5 && letters == 1:
		return len(wrong) > len(right)
	}
	return letters <= 1
}

// nearest returns the name that a wrong one is most like: one that it begins, or that has the fewest other letters.
func nearest(wrong string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		cost := func(name string) int {
			if strings.HasPrefix(name, wrong) && name != wrong {
				return 1
			}
			return descriptors.Distance(wrong, name)
		}
		return cost(a) - cost(b)
	})
}
