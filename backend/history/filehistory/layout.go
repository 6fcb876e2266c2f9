package filehistory

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// FORMAT.md shows the layout with an example.

var (
	aboutBucket = []byte("about")
	formatKey   = []byte("format")
	format      = []byte("weir history 1")
	rowsBucket  = []byte("rows")
)

// The kinds of rows. All rows of one kind in a partition are contiguous.
const (
	positionRow = 'p'
	seriesRow   = 's'
	chunkRow    = 't'
)

// initialize makes the buckets of a new file. It fails if the file is shorter than its header says, or has another
// format.
func (s *Store) initialize(tx *bolt.Tx, file *os.File) error {
	info, err := file.Stat()
	if err == nil && info.Size() < tx.Size() {
		err = fmt.Errorf("%s %w (it has %d bytes and should have %d or more)", s.name, ErrDamaged, info.Size(), tx.Size())
	}
	if err == nil {
		err = s.checkFormat(tx)
	}
	if err != nil {
		return err
	}
	_ = file.Chmod(0o600) // so that others cannot read an existing file; fails if another user owns it
	about, err := tx.CreateBucketIfNotExists(aboutBucket)
	if err == nil && about.Get(formatKey) == nil {
		err = about.Put(formatKey, format)
	}
	if err == nil {
		_, err = tx.CreateBucketIfNotExists(rowsBucket)
	}
	return err
}

// checkFormat returns an error unless the file is empty or has the format of this version.
func (s *Store) checkFormat(tx *bolt.Tx) error {
	if first, _ := tx.Cursor().First(); first == nil {
		return nil
	}
	var found []byte
	if about := tx.Bucket(aboutBucket); about != nil {
		found = about.Get(formatKey)
	}
	if !bytes.Equal(found, format) {
		return fmt.Errorf("%s %w (its format is %q, this version's is %q)", s.name, ErrFormat, found, format)
	}
	return nil
}

// seriesHash identifies a series in keys: the first 16 bytes of a SHA-256 over its ID.
type seriesHash [16]byte

func hashOf(id history.ID) seriesHash {
	sum := sha256.Sum256(appendID(nil, id))
	return seriesHash(sum[:])
}

// appendID appends an ID, such that no two IDs have the same bytes.
func appendID(dst []byte, id history.ID) []byte {
	dst = append(dst, byte(id.Outcome))
	for _, part := range [...]string{id.Domain, id.Path, id.Value} {
		dst = append(binary.AppendUvarint(dst, uint64(len(part))), part...)
	}
	return dst
}

func positionKey(p history.Partition, writer string) []byte {
	return append([]byte{byte(p), positionRow}, writer...)
}

func seriesKey(p history.Partition, h seriesHash) []byte {
	return append([]byte{byte(p), seriesRow}, h[:]...)
}

// chunksKey returns the prefix of the rows of a chunk, one row for each series. A number may be negative, so its top
// bit is inverted to order the rows by time.
func chunksKey(p history.Partition, c history.Chunk) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(p), chunkRow, byte(c.Tier)}, uint32(c.Number)^1<<31)
}

func chunkKey(p history.Partition, c history.Chunk, h seriesHash) []byte {
	return append(chunksKey(p, c), h[:]...)
}

// readChunkKey decodes the key of a chunk's row.
func readChunkKey(key []byte) (history.Chunk, seriesHash, error) {
	if len(key) != 7+len(seriesHash{}) || int(key[2]) >= history.Tiers {
		return history.Chunk{}, seriesHash{}, errRow
	}
	number := int32(binary.BigEndian.Uint32(key[3:]) ^ 1<<31)
	return history.Chunk{Tier: history.Tier(key[2]), Number: int64(number)}, seriesHash(key[7:]), nil
}

// series is the row of a series.
type series struct {
	history.Totals
	id []byte // encoded by appendID
}

func (r *series) encode() []byte {
	dst := make([]byte, 0, 24+len(r.id))
	return append(appendNumbers(dst, r.Lifetime, r.Expired, r.Points), r.id...)
}

var errRow = errors.New("a row cannot be read")

func appendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// cutNumbers reads numbers from the start of src, and returns the rest.
func cutNumbers(src []byte, numbers ...*uint64) (rest []byte, err error) {
	for _, number := range numbers {
		n, width := binary.Uvarint(src)
		if width <= 0 {
			return nil, errRow
		}
		*number, src = n, src[width:]
	}
	return src, nil
}

// decodeSeries reads the row of a series. Its id shares src's memory.
func decodeSeries(src []byte) (r series, err error) {
	if r.id, err = cutNumbers(src, &r.Lifetime, &r.Expired, &r.Points); err != nil {
		return series{}, err
	}
	return r, nil
}

// readID decodes the result of appendID.
func readID(src []byte) (id history.ID, err error) {
	if len(src) == 0 || int(src[0]) >= history.Outcomes {
		return id, errRow
	}
	id.Outcome, src = history.Outcome(src[0]), src[1:]
	for _, part := range [...]*string{&id.Domain, &id.Path, &id.Value} {
		var size uint64
		if src, err = cutNumbers(src, &size); err != nil || size > uint64(len(src)) {
			return id, errRow
		}
		*part, src = string(src[:size]), src[size:]
	}
	return id, nil
}

// position is a writer's position in a partition: the number of its last batch, the Unix time at which that was
// counted, and the number of its refused hits.
type position struct {
	last    uint64
	at      int64
	refused uint64
}

func (r position) encode() []byte {
	if r.refused == 0 {
		return appendNumbers(nil, r.last, uint64(r.at))
	}
	return appendNumbers(nil, r.last, uint64(r.at), r.refused)
}

func decodePosition(src []byte) (r position, err error) {
	var at uint64
	rest, err := cutNumbers(src, &r.last, &at)
	if err == nil && len(rest) > 0 {
		_, err = cutNumbers(rest, &r.refused)
	}
	r.at = int64(at)
	return r, err
}

// table gives access to one partition in a transaction.
type table struct {
	p     history.Partition
	rows  *bolt.Bucket
	store string // name of the store, in errors
}

func (s *Store) table(tx *bolt.Tx, p history.Partition) (*table, error) {
	rows := tx.Bucket(rowsBucket)
	if rows == nil {
		return nil, fmt.Errorf("%s %w (it has no rows)", s.name, ErrDamaged)
	}
	return &table{p: p, rows: rows, store: s.name}, nil
}

// damaged returns the error of a row that cannot be read.
func (t *table) damaged(key []byte, err error) error {
	return fmt.Errorf("%s %w (row %x: %w)", t.store, ErrDamaged, key, err)
}

// get reads a row, and reports whether it exists.
func get[T any](t *table, key []byte, decode func(row []byte) (T, error)) (value T, found bool, err error) {
	row := t.rows.Get(key)
	if row == nil {
		return value, false, nil
	}
	if value, err = decode(row); err != nil {
		return value, false, t.damaged(key, err)
	}
	return value, true, nil
}

// withPrefix yields the rows whose keys begin with a prefix, in order. The caller must not write while it iterates.
func (t *table) withPrefix(prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, row []byte) bool) {
		cursor := t.rows.Cursor()
		key, row := cursor.Seek(prefix)
		for bytes.HasPrefix(key, prefix) && yield(key, row) {
			key, row = cursor.Next()
		}
	}
}

// seriesChunks implements [history.Chunks] with the rows of a series.
type seriesChunks struct {
	*table
	hash seriesHash
}

func (s *seriesChunks) Cells(c history.Chunk) (history.Cells, error) {
	key := chunkKey(s.p, c, s.hash)
	cells, err := unpack(c, s.rows.Get(key))
	if err != nil {
		return nil, s.damaged(key, err)
	}
	return cells, nil
}

func (s *seriesChunks) SetCells(c history.Chunk, cells history.Cells) error {
	key := chunkKey(s.p, c, s.hash)
	if len(cells) == 0 {
		return s.rows.Delete(key)
	}
	return s.rows.Put(key, pack(c.Tier, cells))
}

func (s *seriesChunks) Fine() (found []history.Chunk, err error) {
	found, err = s.chunks(history.Minutes, history.Hours)
	return slices.DeleteFunc(found, func(c history.Chunk) bool { return s.rows.Get(chunkKey(s.p, c, s.hash)) == nil }), err
}

// chunks returns the chunks of some tiers that any series of the partition has, finest and oldest first.
func (t *table) chunks(finest, coarsest history.Tier) (found []history.Chunk, err error) {
	cursor, end := t.rows.Cursor(), []byte{byte(t.p), chunkRow, byte(coarsest) + 1}
	key, _ := cursor.Seek([]byte{byte(t.p), chunkRow, byte(finest)})
	for last := []byte(nil); key != nil && bytes.Compare(key, end) < 0; {
		c, _, err := readChunkKey(key)
		if err == nil && bytes.Compare(key, last) <= 0 {
			err = errors.New("rows are out of order") // going on would loop forever
		}
		if err != nil {
			return nil, t.damaged(key, err)
		}
		found, last = append(found, c), key
		key, _ = cursor.Seek(chunksKey(t.p, history.Chunk{Tier: c.Tier, Number: c.Number + 1}))
	}
	return found, nil
}

// Cells are packed as varints, in the order of their indexes: the sum of a minute, the sum and the peak of a coarser
// bucket. A run of empty buckets is a 0 and the number of further empty ones. FORMAT.md has an example.

// pack packs the cells of a chunk of a tier.
func pack(t history.Tier, cells history.Cells) (dst []byte) {
	next := 0
	for i := range cells {
		if empty := cells[i].Index - next; empty > 0 {
			dst = binary.AppendUvarint(append(dst, 0), uint64(empty-1))
		}
		dst = binary.AppendUvarint(dst, cells[i].Sum)
		if t > history.Minutes {
			dst = binary.AppendUvarint(dst, cells[i].Peak)
		}
		next = cells[i].Index + 1
	}
	return dst
}

// unpack unpacks the cells of a chunk. Its error names the invalid cell.
func unpack(c history.Chunk, src []byte) (history.Cells, error) {
	size := c.Len()
	cells := make(history.Cells, 0, min(len(src), size)+1) // with room for one more, which is often added
	for index := 0; len(src) > 0; index++ {
		var sum, second uint64 // second is the peak or, after a 0, the number of further empty buckets
		rest, err := cutNumbers(src, &sum)
		if err == nil && (sum == 0 || c.Tier > history.Minutes) {
			rest, err = cutNumbers(rest, &second)
		}
		if err != nil {
			return nil, err
		}
		src = rest
		if sum == 0 {
			index += int(min(second, uint64(size)))
			continue
		}
		cell := history.Cell{Index: index, Sum: sum, Peak: second}
		if c.Tier == history.Minutes {
			cell.Peak = sum
		}
		if index >= size || cell.Peak == 0 || cell.Peak > sum || sum > history.MaxTotal {
			return nil, fmt.Errorf("index %d of %d has sum %d and peak %d", index, size, sum, cell.Peak)
		}
		cells = append(cells, cell)
	}
	return cells, nil
}
