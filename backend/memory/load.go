package memory

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirproxy/weir/backend/window"
)

var errTorn = errors.New("the file is torn")

// openDir locks the directory and loads the counters that were saved there. It logs errors as warnings.
func (s *Store) openDir() {
	var err error
	if s.lock, err = lockDirectory(s.config.Dir); err != nil {
		s.config.Log.Warn("counters are not saved", "error", err, "effect", "a restart loses them")
		return
	}
	path := filepath.Join(s.config.Dir, fileName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = errors.Join(s.read(f), f.Close())
	}
	if err != nil {
		s.config.Log.Warn("not all counters were loaded", "file", path, "loaded", s.keys.Load(),
			"error", errors.Join(err, os.Rename(path, path+".torn")),
			"effect", "the others begin at zero; the file is renamed to .torn")
		return
	}
	s.config.Log.Info("counters loaded", "file", path, "keys", s.keys.Load())
}

// read loads the entries of a file, up to its end or its first torn block.
func (s *Store) read(f io.Reader) error {
	r := bufio.NewReaderSize(f, blockSize)
	first := make([]byte, len(header))
	if _, err := io.ReadFull(r, first); err != nil || string(first) != header {
		return fmt.Errorf("it does not begin with %q: another version's, or torn", header)
	}
	now := s.now()
	for {
		block, err := readBlock(r)
		if err != nil || len(block) == 0 {
			return err
		}
		if err := s.loadBlock(block, now); err != nil {
			return err
		}
	}
}

// readBlock returns the next block, an empty one at the regular end of the file.
func readBlock(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, errTorn
	}
	size := binary.LittleEndian.Uint32(head[:4])
	if size > maxBlock {
		return nil, errTorn
	}
	block := make([]byte, size)
	if _, err := io.ReadFull(r, block); err != nil || crc32.Checksum(block, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return block, nil
}

func (s *Store) loadBlock(block []byte, now window.Instant) error {
	for len(block) > 0 {
		one, rest, ok := cut(block)
		if !ok {
			return errTorn
		}
		e, err := decodeEntry(one, now)
		if err != nil {
			return err
		}
		if e.expires != 0 {
			s.load(e, now)
		}
		block = rest
	}
	return nil
}

// load adds a saved entry, unless its key exists.
func (s *Store) load(e *entry, now window.Instant) {
	home := s.shardOf([]byte(e.key))
	sh := &s.shards[home]
	sh.mu.Lock()
	if sh.entries[e.key] == nil {
		sh.entries[e.key] = e
		s.keys.Add(1)
	}
	sh.mu.Unlock()
	s.makeRoom(home, e, now)
}

func decodeEntry(src []byte, now window.Instant) (*entry, error) {
	key, src, ok := cut(src)
	reopens, n := binary.Uvarint(src)
	if !ok || len(key) == 0 || n <= 0 {
		return nil, errTorn
	}
	src = src[n:]
	e := newEntry(string(key), 1) // most keys have one limit
	e.reopens = window.Instant(reopens)
	for len(src) > 0 {
		state, rest, err := window.ReadState(src)
		if err != nil {
			return nil, err
		}
		e.states = append(e.states, state)
		src = rest
	}
	e.rewind(now)
	return e, nil
}

// cut splits src after its first field, which begins with its length.
func cut(src []byte) (part, rest []byte, ok bool) {
	size, n := binary.Uvarint(src)
	if n <= 0 || size > uint64(len(src)-n) {
		return nil, src, false
	}
	return src[n : n+int(size)], src[n+int(size):], true
}
