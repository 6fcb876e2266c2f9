package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

const (
	// pageSize is how many series are looked at with one script, and piecePlaces how many places the chunks may have that
	// are read with one: both take a server about a quarter of a millisecond. A day of minutes is read at once, though.
	pageSize    = 50
	piecePlaces = 800
	// maxReads is how often a series is read again whose list of chunks changes meanwhile; after the first piecedReads as
	// one piece, however large.
	maxReads, piecedReads = 50, 3
)

// record is what a series' own hash says.
type record struct {
	id       history.ID
	name     string // in the set of those due
	key      string
	lifetime uint64
	expired  uint64
	points   int // finer than a day
	version  string
	chunks   []history.Chunk
}

func newRecord(p history.Partition, id history.ID) record {
	name := seriesName(id)
	return record{id: id, name: name, key: seriesKey(p, name)}
}

// parse reads the fields of a series' hash.
func (r *record) parse(fields string) error {
	r.lifetime, r.expired, r.points, r.version, r.chunks = 0, 0, 0, "", nil
	return pairs(fields, func(name, value string) (err error) {
		switch name {
		case "total":
			r.lifetime, err = strconv.ParseUint(value, 10, 64)
		case "expired":
			r.expired, err = strconv.ParseUint(value, 10, 64)
		case "points":
			r.points, _ = strconv.Atoi(value) // it only tells when to roll early
		case "version":
			r.version = value
		default:
			c, ok := parseChunk(name)
			if !ok {
				return errors.New("it is no field of a series")
			}
			r.chunks = append(r.chunks, c)
		}
		return err
	})
}

// pairs calls f with the fields and values of a hash as the script puts them together.
func pairs(fields string, f func(name, value string) error) error {
	if fields == "" {
		return nil
	}
	for rest, more := fields, true; more; {
		var name, value string
		name, rest, _ = strings.Cut(rest, " ")
		value, rest, more = strings.Cut(rest, " ")
		if err := f(name, value); err != nil {
			return fmt.Errorf("field %q with %q: %w", name, value, err)
		}
	}
	return nil
}

// records reads the hashes of series, each at a moment. Those of which nothing is stored are left out. Now is the time
// of the server, in Unix seconds.
func (s *Store) records(ctx context.Context, p history.Partition, ids []history.ID) (
	found []record, now int64, err error) {
	list := make([]record, len(ids))
	keys := make([]string, len(ids))
	for i, id := range ids {
		list[i] = newRecord(p, id)
		keys[i] = list[i].key
	}
	reply, err := s.run(ctx, p, s.scripts.read, keys)
	if err != nil {
		return nil, 0, err
	}
	for i := range list {
		fields := text(reply, 2+i)
		if fields == "" {
			continue
		}
		if err := list[i].parse(fields); err != nil {
			return nil, 0, fmt.Errorf("%w: %s: %w", ErrDamaged, list[i].key, err)
		}
		found = append(found, list[i])
	}
	return found, number(reply, 1), nil
}

// load reads those chunks of a series that are needed, all as they were at one moment, which the record then is of too.
//
// It reads them in pieces, to hold up nobody else. Coarse chunks change only together with the version, so pieces of
// one version belong together; minutes are read last and at once, with the totals.
func (s *Store) load(ctx context.Context, p history.Partition, r *record, needs func(history.Chunk) bool) (
	*history.Ledger, error) {
	for try := range maxReads {
		needed := slices.DeleteFunc(slices.Clone(r.chunks), func(c history.Chunk) bool { return !needs(c) })
		room := piecePlaces
		if try >= piecedReads {
			room = len(needed) * 2 * 366
		}
		ledger, err := s.loadPieces(ctx, p, r, split(needed, room))
		if ledger != nil || err != nil {
			return ledger, err
		}
	}
	return nil, fmt.Errorf("partition %d of the history: series %+v changes quicker than it can be read", p, r.id)
}

// loadPieces is one attempt of load. Its ledger is nil if the series changed meanwhile; then the record is fresh.
func (s *Store) loadPieces(ctx context.Context, p history.Partition, r *record, pieces [][]history.Chunk) (
	*history.Ledger, error) {
	ledger, version := &history.Ledger{}, r.version
	for _, piece := range pieces {
		keys := []string{r.key}
		for _, c := range piece {
			keys = append(keys, keysOf(r.key, c)...)
		}
		reply, err := s.run(ctx, p, s.scripts.read, keys)
		if err != nil {
			return nil, err
		}
		if len(reply) != 2+len(keys) {
			return nil, errUnreadable
		}
		if err := r.parse(text(reply, 2)); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, r.key, err)
		}
		if r.version != version {
			return nil, nil
		}
		rest := reply[3:]
		for _, c := range piece {
			own := rest[:len(keysOf(r.key, c))]
			cells, err := parseCells(c, text(own, 0), text(own, 1))
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, chunkKey(r.key, c), err)
			}
			ledger.Put(c, cells)
			rest = rest[len(own):]
		}
	}
	ledger.Lifetime, ledger.Expired = r.lifetime, r.expired
	return ledger, nil
}

// split puts chunks together that are read at once, with as many places as there is room for; all minutes come last.
func split(chunks []history.Chunk, places int) [][]history.Chunk {
	slices.SortFunc(chunks, func(a, b history.Chunk) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(a.Number, b.Number))
	})
	var pieces [][]history.Chunk
	room := 0
	for _, c := range chunks {
		needed := 0
		if c.Tier > history.Minutes {
			needed = 2 * c.Places() // with the peaks
		}
		if len(pieces) == 0 || needed > room {
			pieces, room = append(pieces, nil), places
		}
		pieces[len(pieces)-1] = append(pieces[len(pieces)-1], c)
		room -= needed
	}
	return pieces
}

// parseCells reads the hash of a chunk, and that of its peaks.
func parseCells(c history.Chunk, sums, peaks string) (history.Cells, error) {
	var cells history.Cells
	top := make(map[string]uint64)
	err := pairs(peaks, func(place, value string) (err error) {
		top[place], err = strconv.ParseUint(value, 10, 64)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("peaks: %w", err)
	}
	err = pairs(sums, func(name, value string) error {
		place, err := strconv.Atoi(name)
		sum, failed := strconv.ParseUint(value, 10, 64)
		if err != nil || failed != nil || place < 0 || place >= c.Places() || sum == 0 || sum > history.MaxTotal {
			return errors.New("that is no count")
		}
		cell := history.Cell{Place: place, Sum: sum, Peak: sum}
		if peak, known := top[name]; known {
			cell.Peak = peak
		}
		cells = append(cells, cell)
		return nil
	})
	slices.SortFunc(cells, func(a, b history.Cell) int { return cmp.Compare(a.Place, b.Place) })
	return cells, err
}
