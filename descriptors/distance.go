package descriptors

import "strings"

// Nearest finds the descriptor, in the format of [Descriptor.String], that is most similar to a wanted text.
type Nearest struct {
	Wanted string
	Found  string // most similar one of those that were added; "" for none

	cost int // distance of Found
}

const maxCompared = 64 // most bytes of a text to compare, as comparing takes time by the product of both lengths

// Add compares another descriptor. Of equally similar ones, the first in alphabetical order is found.
func (n *Nearest) Add(descriptor string) {
	wanted, short := n.Wanted[:min(len(n.Wanted), maxCompared)], descriptor[:min(len(descriptor), maxCompared)]
	cost := 2 + Distance(wanted, short)
	for entry := range strings.SplitSeq(short, ",") {
		switch _, value, _ := strings.Cut(entry, "="); {
		case value == wanted:
			cost = 0 // only the key is missing
		case strings.HasPrefix(value, wanted):
			cost = min(cost, 1)
		default:
			cost = min(cost, 2+Distance(wanted, value))
		}
	}
	if n.Found == "" || cost < n.cost || cost == n.cost && descriptor < n.Found {
		n.Found, n.cost = descriptor, cost
	}
}

// Distance returns the edit distance of a and b: how many letters must be added, removed, changed, or swapped with the
// next one.
func Distance(a, b string) int {
	costs := make([][]int, len(a)+1) // distances of the prefixes of a and b, by their lengths
	for i := range costs {
		costs[i] = make([]int, len(b)+1)
		for j := range costs[i] {
			if i == 0 || j == 0 {
				costs[i][j] = i + j
				continue
			}
			changed := costs[i-1][j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			costs[i][j] = min(changed, costs[i-1][j]+1, costs[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				costs[i][j] = min(costs[i][j], costs[i-2][j-2]+1)
			}
		}
	}
	return costs[len(a)][len(b)]
}
