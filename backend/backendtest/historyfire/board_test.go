package historyfire

import (
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// stepNames are the steps of both stores: on the board they are numbers. The first stands for none.
var stepNames = []string{"", "apply", "applied", "roll 1m", "rolled 1m", "roll 5m", "rolled 5m", "roll 1h", "rolled 1h",
	"expire", "expired", "forget", "forgot", "apply: before", "apply: counted", "apply: after", "apply: rolled early",
	"roll: moved", "roll: after"}

// board is memory that the tests share with their children. What a child has written there outlives it.
type board struct{ words []atomic.Int64 }

// The words of a board: the time in Unix microseconds, then some for each child.
const (
	wordClock = 0
	wordSlots = 8

	slotHeard = 0 // the time at which the store had last answered in each partition that the child writes to
	slotStep  = 1 // the step that it is at
	slotSteps = 2 // how many it has come to
	slotDied  = 3 // the step at which it killed itself
	slotWords = 8

	maxChildren = 16_000
)

func openBoard(path string) (*board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = 8 * (wordSlots + slotWords*maxChildren)
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &board{unsafe.Slice((*atomic.Int64)(unsafe.Pointer(&memory[0])), size/8)}, nil
}

func mustBoard(t *testing.T, path string) *board {
	t.Helper()
	b, err := openBoard(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *board) now() time.Time               { return time.UnixMicro(b.words[wordClock].Load()).UTC() }
func (b *board) advance(d time.Duration)      { b.words[wordClock].Add(d.Microseconds()) }
func (b *board) at(slot, w int) *atomic.Int64 { return &b.words[wordSlots+slot*slotWords+w] }

// stepOf returns the name of a step that a child's slot holds.
func (b *board) stepOf(slot, w int) string { return stepNames[b.at(slot, w).Load()] }

func numberOf(step string) int64 { return int64(max(0, slices.Index(stepNames, step))) }
