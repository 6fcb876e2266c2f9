package history

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Cells are packed as numbers of variable length, place by place from the first: a minute's sum, a coarser bucket's sum
// and peak. Where places are empty come a 0 and how many more of them follow it. filehistory/FORMAT.md has an example.

// Pack appends the cells of a chunk of this tier to dst.
func (t Tier) Pack(dst []byte, cells Cells) []byte {
	next := 0
	for i := range cells {
		if empty := cells[i].Place - next; empty > 0 {
			dst = binary.AppendUvarint(append(dst, 0), uint64(empty-1))
		}
		dst = binary.AppendUvarint(dst, cells[i].Sum)
		if t > Minutes {
			dst = binary.AppendUvarint(dst, cells[i].Peak)
		}
		next = cells[i].Place + 1
	}
	return dst
}

var errPacked = errors.New("it ends in the middle of a number, or a number is too large")

// Unpack reads the packed cells of the chunk. Its error names what cannot be in them.
func (c Chunk) Unpack(src []byte) (Cells, error) {
	places := c.Places()
	cells := make(Cells, 0, min(len(src), places)+1) // one more, as a cell is often added
	for place := 0; len(src) > 0; place++ {
		sum, rest, err := cutNumber(src)
		if err != nil {
			return nil, err
		}
		if sum == 0 {
			more, rest, err := cutNumber(rest)
			if err != nil {
				return nil, err
			}
			place, src = place+int(min(more, uint64(places))), rest
			continue
		}
		cell := Cell{Place: place, Sum: sum, Peak: sum}
		if c.Tier > Minutes {
			if cell.Peak, rest, err = cutNumber(rest); err != nil {
				return nil, err
			}
		}
		if place >= places || cell.Peak == 0 || cell.Peak > sum || sum > MaxTotal {
			return nil, fmt.Errorf("place %d of %d has sum %d and peak %d", place, places, sum, cell.Peak)
		}
		cells, src = append(cells, cell), rest
	}
	return cells, nil
}

func cutNumber(src []byte) (n uint64, rest []byte, err error) {
	n, width := binary.Uvarint(src)
	if width <= 0 {
		return 0, nil, errPacked
	}
	return n, src[width:], nil
}
