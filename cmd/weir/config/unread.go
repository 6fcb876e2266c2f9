package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

var (
	// family matches names that are probably meant for weir, by their prefixes.
	family = regexp.MustCompile(`^(REDIS|GRPC|RUNTIME|CONFIG|MEMCACHE|STATSD|HISTORY|XDS|RLQS|LIMIT|PROMETHEUS|ADMIN|DENIAL|DRAIN|TRACING|DOG_STATSD)_`)
	// foreign matches NAME=VALUE of variables with these prefixes that Kubernetes sets for Services, or that gRPC reads.
	foreign = regexp.MustCompile(`^[^=]+_(SERVICE_(HOST|PORT)(_|=)|PORT_\d+_|PORT=\w+://)|^GRPC_(GO|XDS|EXPERIMENTAL|ENFORCE|DEFAULT|DNS|POLL|TRACE|VERBOSITY)[_=]`)
)

// unread returns the sorted names of variables that are probably meant for weir, but that it does not read.
func (e Environment) unread() (names []string) {
	read := Names()
	for _, name := range slices.Sorted(maps.Keys(e)) {
		known := slices.Contains(read, name) || strings.HasPrefix(name, "DOG_STATSD_MOGRIFIER_") || e.isForeign(name)
		for _, group := range ineffective {
			known = known || slices.ContainsFunc(strings.Fields(group.names), func(p string) bool { return strings.HasPrefix(name, p) })
		}
		plain := strings.TrimPrefix(name, weirPrefix)
		slip := func(right string) bool { return isTypo(plain, right) }
		if !known && e[name] != "" && (family.MatchString(plain) || slices.ContainsFunc(read, slip)) {
			names = append(names, name)
		}
	}
	return names
}

// weirPrefix is a common prefix of variables, which weir's do not have.
const weirPrefix = "WEIR_"

// isForeign reports whether a variable is meant for another program.
func (e Environment) isForeign(name string) bool { return foreign.MatchString(name + "=" + e[name]) }

// isTypo reports whether a wrong name differs from the right one by one letter or, in a long name with the same
// beginning, by two. In a name as short as HOST, it must be an extra letter, as many words differ from it by one.
func isTypo(wrong, right string) bool {
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

// nearest returns the name that is most similar to a wrong one: one that it is a prefix of, or that differs by the
// fewest letters.
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
