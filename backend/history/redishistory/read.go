package redishistory

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
	// pageSize is the number of series that one script reads, which takes a server about a quarter of a millisecond.
	pageSize = 50
	// maxReads bounds the attempts to read a series whose list of chunks changes meanwhile. The first splitReads attempts
	// read it in pieces, the others at once, however large it is.
	maxReads, splitReads = 50, 3
)

// record is the hash of a series, which lists its chunks.
type record struct {
	history.Totals
	id        history.ID
	partition history.Partition
	name      string // name in the due set
	key       string
	version   string
	chunks    []history.Chunk
	gone      bool                    // the series was removed
	damage    error                   // the first error of unreadable parts of the hash or its loaded chunks
	firstDays map[history.Chunk]int64 // by chunk of days, the beginning of its first stored day, if the chunk was read
}

// parse parses the hash of a series, and notes unreadable fields as damage.
func (r *record) parse(hash any) {
	r.Totals, r.version, r.chunks = history.Totals{}, "", nil
	r.noteUnreadable(r.key, parseHash(hash, func(name, value string) (err error) {
		switch name {
		case "total":
			r.Lifetime, err = parseCount(value)
		case "expired":
			r.Expired, err = parseCount(value)
		case "points":
			r.Points, _ = parseCount(value) // only used to downsample early
		case "version":
			r.version = value
		default:
			c, ok := parseChunk(name)
			if !ok {
				return errors.New("it is not a field of a series")
			}
			r.chunks = append(r.chunks, c)
		}
		return err
	}))
}

// noteUnreadable notes the error of an unreadable key as damage, unless there is damage already or err is nil.
func (r *record) noteUnreadable(key string, err error) {
	if err != nil && r.damage == nil {
		r.damage = fmt.Errorf("%w: %s: %w", ErrDamaged, key, err)
	}
}

var errCount = errors.New("that is not a count")

func parseCount(value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, errCount
	}
	return n, nil
}

// parseHash calls visit with the fields and values of a hash in a reply of read.lua. It continues after errors, and
// returns the first one.
func parseHash(hash any, visit func(name, value string) error) (first error) {
	if failed, ok := hash.([]any); ok {
		return errors.New(item[string](failed, 0))
	}
	text, _ := hash.(string)
	count, rest, any := strings.Cut(text, " ")
	if !any {
		return nil
	}
	if strconv.Itoa(strings.Count(rest, " ")+1) != count {
		return errors.New("a field or a value has a space in it, which none of weir's has")
	}
	for more := true; more; {
		var name, value string
		name, rest, _ = strings.Cut(rest, " ")
		value, rest, more = strings.Cut(rest, " ")
		if err := visit(name, value); err != nil && first == nil {
			first = fmt.Errorf("field %q with %q: %w", name, value, err)
		}
	}
	return first
}

// readHashes reads hashes at one moment, which it returns as now, the server's time in Unix seconds.
func (s *Store) readHashes(ctx context.Context, p history.Partition, keys []string) (hashes []any, now int64, err error) {
	reply, err := s.run(ctx, p, s.scripts.read, keys)
	if err == nil && len(reply) != 2+len(keys) {
		err = errUnreadable
	}
	if err != nil {
		return nil, 0, err
	}
	return reply[2:], item[int64](reply, 1), nil
}

// readRecords reads the hashes of series. It leaves out series that do not exist, but not damaged ones.
func (s *Store) readRecords(ctx context.Context, p history.Partition, ids []history.ID) (
	found []record, now int64, err error) {
	list, keys := make([]record, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		name := seriesName(id)
		list[i] = record{id: id, partition: p, name: name, key: seriesKey(p, name)}
		keys[i] = list[i].key
	}
	hashes, now, err := s.readHashes(ctx, p, keys)
	for i, hash := range hashes {
		if hash != "" {
			list[i].parse(hash)
			found = append(found, list[i])
		}
	}
	return found, now, err
}

// load reads the needed chunks of a series, and updates the record, all as of one moment. It leaves out unreadable
// parts, and notes them as the record's damage.
//
// It reads each coarse chunk with a separate script, so as not to block the server. Coarse chunks change only together
// with the version, so those of one version belong together. It reads the minutes last and at once, with the totals.
func (s *Store) load(ctx context.Context, r *record, needs func(history.Chunk) bool) (*history.Ledger, error) {
	for try := range maxReads {
		needed := slices.DeleteFunc(slices.Clone(r.chunks), func(c history.Chunk) bool { return !needs(c) })
		read := pieces(needed)
		if try >= splitReads {
			read = [][]history.Chunk{needed}
		}
		if ledger, err := s.loadPieces(ctx, r, read); !errors.Is(err, errStale) {
			return ledger, err
		}
	}
	return nil, r.changedTooOften()
}

// changedTooOften returns the error of a series that changed at each attempt to read or downsample it.
func (r *record) changedTooOften() error {
	return fmt.Errorf("partition %d of the history: series %+v changes faster than it can be read: try again",
		r.partition, r.id)
}

// errStale means that a series' list of chunks has changed since it was read.
var errStale = errors.New("the series has changed meanwhile")

// loadPieces is one attempt of load. If it returns errStale, it has updated the record.
func (s *Store) loadPieces(ctx context.Context, r *record, pieces [][]history.Chunk) (*history.Ledger, error) {
	ledger, version := &history.Ledger{}, r.version
	for _, piece := range pieces {
		keys := []string{r.key}
		for _, c := range piece {
			keys = append(keys, chunkKeys(r.key, c)...)
		}
		hashes, _, err := s.readHashes(ctx, r.partition, keys)
		if err != nil {
			return nil, err
		}
		if r.parse(hashes[0]); r.version != version {
			return nil, errStale
		}
		at := 1
		for _, c := range piece {
			end := at + len(chunkKeys(r.key, c))
			_ = ledger.SetCells(c, r.cells(c, keys[at:end], hashes[at:end])) // a ledger returns no errors
			at = end
		}
	}
	ledger.Totals = r.Totals
	return ledger, nil
}

// pieces splits chunks into those that are read at once: each coarse one alone, and last all minutes.
func pieces(chunks []history.Chunk) (all [][]history.Chunk) {
	var minutes []history.Chunk
	for _, c := range chunks {
		if c.Tier > history.Minutes {
			all = append(all, []history.Chunk{c})
		} else {
			minutes = append(minutes, c)
		}
	}
	if minutes != nil {
		all = append(all, minutes)
	}
	return all
}

// cells parses the hash of a chunk and, if it is coarser than a minute, that of its peaks. It notes unreadable fields
// as damage.
func (r *record) cells(c history.Chunk, keys []string, hashes []any) (cells history.Cells) {
	peaks := make(map[string]uint64)
	if c.Tier > history.Minutes {
		r.noteUnreadable(keys[1], parseHash(hashes[1], func(index, value string) (err error) {
			peaks[index], err = parseCount(value)
			return err
		}))
	}
	r.noteUnreadable(keys[0], parseHash(hashes[0], func(name, value string) error {
		index, err := strconv.Atoi(name)
		sum, failed := parseCount(value)
		if err != nil || failed != nil || index < 0 || index >= c.Len() || sum == 0 || sum > history.MaxTotal {
			return errCount
		}
		cell := history.Cell{Index: index, Sum: sum, Peak: sum}
		if peak, ok := peaks[name]; ok {
			cell.Peak = peak
		}
		cells = append(cells, cell)
		return nil
	}))
	slices.SortFunc(cells, func(a, b history.Cell) int { return cmp.Compare(a.Index, b.Index) })
	return cells
}
