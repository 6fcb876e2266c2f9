package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	// family matches names that are meant for weir: its parts have these beginnings.
	family = regexp.MustCompile(`^(REDIS|GRPC|RUNTIME|CONFIG|MEMCACHE|STATSD|HISTORY|XDS|LIMIT|PROMETHEUS|ADMIN|DENIAL|DRAIN|TRACING|DOG_STATSD)_`)
	// foreign matches NAME=VALUE of variables in these families that Kubernetes sets for Services, or that gRPC reads.
	foreign = regexp.MustCompile(`^[^=]+_(SERVICE_(HOST|PORT)(_|=)|PORT_\d+_|PORT=\w+://)|^GRPC_(GO|XDS|EXPERIMENTAL|ENFORCE|DEFAULT|DNS|POLL|TRACE|VERBOSITY)[_=]`)
)

// maxTypos is how many letters a name outside the families may have wrong to be taken for one that weir reads.
const maxTypos = 2

// unread returns the variables that are meant for weir by their names, and that it does not read, sorted.
func (e Environment) unread() (names []string) {
	read := Names()
	for _, name := range slices.Sorted(maps.Keys(e)) {
		known := slices.Contains(read, name) || strings.HasPrefix(name, "DOG_STATSD_MOGRIFIER_") || foreign.MatchString(name+"="+e[name])
		for _, group := range ineffective {
			known = known || slices.ContainsFunc(strings.Fields(group.names), func(p string) bool { return strings.HasPrefix(name, p) })
		}
		typo := len(name) > 3*maxTypos && distance(name, nearest(name, read)) <= maxTypos
		if !known && e[name] != "" && (typo || family.MatchString(name)) {
			names = append(names, name)
		}
	}
	return names
}

// nearest returns the name that a wrong one is most like: one that it begins, or that has the fewest other letters.
func nearest(wrong string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		cost := func(name string) int {
			if strings.HasPrefix(name, wrong) {
				return 1
			}
			return distance(wrong, name)
		}
		return cost(a) - cost(b)
	})
}

// distance returns how many letters must be added, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances of the beginning of a, by the length of the beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
