package memory

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weirproxy/weir/backend/window"
)

// The file begins with header. Blocks follow, each of which has the length of its entries and their CRC-32C, 4 bytes
// each, little endian, and whole entries. A block of length 0 ends the file.
const (
	header    = "weir counters 1\n"
	fileName  = "counters"
	blockSize = 64 << 10
	maxBlock  = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saveOrWarn saves, and logs an error as a warning. If another process had locked the directory, perhaps the one that
// this process replaces, it first tries to lock it again.
func (s *Store) saveOrWarn() {
	if s.lock == nil {
		var err error
		if s.lock, err = lockDirectory(s.config.Dir); err != nil {
			return // openDir has logged the warning
		}
		s.config.Log.Info("counters are saved from now on", "dir", s.config.Dir)
	}
	if err := s.save(); err != nil {
		s.config.Log.Warn("counters were not saved", "error", err)
	}
}

// save writes all counters to a new file and renames it over the old one, so that a crash leaves one of the two.
func (s *Store) save() error {
	path := filepath.Join(s.config.Dir, fileName)
	_ = os.Remove(path + ".new") // a file that a crash left may be readable by others; if it cannot be removed, creating it fails
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("saving counters: %w", err)
	}
	err = errors.Join(s.write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("saving counters to %s: %w", path, err), os.Remove(f.Name()))
	}
	if err := syncDirectory(s.config.Dir); err != nil {
		return fmt.Errorf("saving counters to %s: %w", path, err)
	}
	return nil
}

func (s *Store) write(to io.Writer) error {
	w := bufio.NewWriterSize(to, blockSize) // keeps its first error for Flush
	_, _ = w.WriteString(header)
	var buf []byte
	now := s.now()
	for i := range s.shards {
		buf = s.shards[i].encode(buf[:0], now)
		writeBlocks(w, buf)
	}
	writeBlock(w, nil)
	return w.Flush()
}

// encode appends all entries of the shard, each after its length.
func (sh *shard) encode(dst []byte, now window.Instant) []byte {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var one []byte
	for _, e := range sh.entries {
		if e.expires <= now {
			continue
		}
		one = e.encode(one[:0])
		dst = append(binary.AppendUvarint(dst, uint64(len(one))), one...)
	}
	return dst
}

func (e *entry) encode(dst []byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(e.key))), e.key...)
	dst = binary.AppendUvarint(dst, uint64(e.reopens))
	for i := range e.states {
		dst = e.states[i].Append(dst)
	}
	return dst
}

// writeBlocks writes entries in blocks of about blockSize, so that a torn file loses few of them.
func writeBlocks(w *bufio.Writer, entries []byte) {
	for len(entries) > 0 {
		n := 0
		for n < blockSize && n < len(entries) {
			size, width := binary.Uvarint(entries[n:])
			n += width + int(size)
		}
		writeBlock(w, entries[:n])
		entries = entries[n:]
	}
}

func writeBlock(w *bufio.Writer, block []byte) {
	head := binary.LittleEndian.AppendUint32(w.AvailableBuffer(), uint32(len(block)))
	_, _ = w.Write(binary.LittleEndian.AppendUint32(head, crc32.Checksum(block, castagnoli)))
	_, _ = w.Write(block)
}

// lockDirectory makes the directory if it is missing, readable by this user alone as keys contain values of
// descriptors, and makes sure that it can be written. It does not change the mode of an existing directory, which may
// be a volume, or shared. While the returned file is open, its lock keeps out a second process, which would overwrite
// the counters.
func lockDirectory(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	_ = f.Chmod(0o600) // so that no other user can lock an existing file; fails if another user owns it
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("data directory %s is in use by another process, or cannot be locked: %w", path, err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDirectory makes a rename in a directory survive a power failure.
func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
