package descriptors

import "strings"

// Nearest finds the descriptor, as [Descriptor.String] writes it, that is most like a text which is none or is unknown.
type Nearest struct {
	Wanted string
	Found  string // of those that were added; "" for none

	cost int // of Found
}

const maxCompared = 64 // bytes of a text: comparing takes time by the product of both lengths

// Add compares one more descriptor. Of those that are equally like the text, the first in alphabetical order is found.
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

// Distance returns how many letters must be added, left out, changed, or swapped with the next, to make b of a.
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
