package filehistory

import (
	"encoding/binary"
	"fmt"

	"github.com/weirproxy/weir/backend/history"
)

// Cells are packed as numbers of variable length, place by place from the first: a minute's sum, a coarser bucket's sum
// and peak. Where places are empty come a 0 and how many more of them follow it. FORMAT.md has an example.

// pack returns the cells of a chunk of a tier, packed.
func pack(t history.Tier, cells history.Cells) (dst []byte) {
	next := 0
	for i := range cells {
		if empty := cells[i].Place - next; empty > 0 {
			dst = binary.AppendUvarint(append(dst, 0), uint64(empty-1))
		}
		dst = binary.AppendUvarint(dst, cells[i].Sum)
		if t > history.Minutes {
			dst = binary.AppendUvarint(dst, cells[i].Peak)
		}
		next = cells[i].Place + 1
	}
	return dst
}

// unpack reads the packed cells of a chunk. Its error names what cannot be in them.
func unpack(c history.Chunk, src []byte) (history.Cells, error) {
	places := c.Places()
	cells := make(history.Cells, 0, min(len(src), places)+1) // one more, as a cell is often added
	for place := 0; len(src) > 0; place++ {
		var sum, second uint64 // the second is the peak or, after a 0, how many more places are empty
		rest, err := cutNumbers(src, &sum)
		if err == nil && (sum == 0 || c.Tier > history.Minutes) {
			rest, err = cutNumbers(rest, &second)
		}
		if err != nil {
			return nil, err
		}
		src = rest
		if sum == 0 {
			place += int(min(second, uint64(places)))
			continue
		}
		cell := history.Cell{Place: place, Sum: sum, Peak: second}
		if c.Tier == history.Minutes {
			cell.Peak = sum
		}
		if place >= places || cell.Peak == 0 || cell.Peak > sum || sum > history.MaxTotal {
			return nil, fmt.Errorf("place %d of %d has sum %d and peak %d", place, places, sum, cell.Peak)
		}
		cells = append(cells, cell)
	}
	return cells, nil
}
