package script

import (
	"fmt"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

const (
	logHeader = 6 * 7 // bytes of a log's header before the tail
	instant   = 2 * 7 // bytes of an instant and the total up to it
	logChunk  = 32    // instants of a full chunk
)

// Log is what the header of a sliding log says. The zero Log holds nothing.
type Log struct {
	limit       descriptors.Limit
	base        uint64         // the total before the oldest instant
	oldest      window.Instant // that counted at the last check
	first, last uint64         // numbers of the chunk of the oldest, and of the tail
	tail        string
}

// ReadLog reads the header of a limit's log, "" if there is none.
func ReadLog(header string, l *descriptors.Limit) (Log, error) {
	if header == "" {
		return Log{limit: *l}, nil
	}
	if len(header) < logHeader || !wholeChunk(header[logHeader:]) {
		return Log{}, fmt.Errorf("%q is no header of a log of %v", header, l)
	}
	return Log{
		limit: *l, base: uint64(number56(header)), oldest: window.Instant(number56(header[7:])),
		first: uint64(number56(header[14:])), last: uint64(number56(header[21:])), tail: header[logHeader:],
	}, nil
}

func wholeChunk(text string) bool { return len(text)%instant == 7 }

// Chunk returns the name of the field that holds a chunk.
func (g *Log) Chunk(number uint64) string {
	return string(append56(append(appendName(nil, &g.limit), ':'), number))
}

// Newest returns the numbers of the chunks that hold the newest MaxInstants instants, beside the header: from the first
// to before the last.
func (g *Log) Newest() (from, to uint64) {
	return max(g.first, g.last-min(g.last, backend.MaxInstants/logChunk+1)), g.last
}

// Older returns the numbers of the chunks before Newest if the oldest instant that counts at a time may be in them,
// since the one that the header names has left.
func (g *Log) Older(now window.Instant) (from, to uint64) {
	to, _ = g.Newest()
	if g.counts(g.oldest, now) {
		return to, to
	}
	return g.first, to
}

func (g *Log) counts(at, now window.Instant) bool { return at.Plus(g.limit.Window) > now }

// Left reports whether all instants of a chunk have left the window at a time.
func (g *Log) Left(chunk string, now window.Instant) bool {
	return wholeChunk(chunk) && len(chunk) > 7 && !g.counts(window.Instant(number56(chunk[len(chunk)-instant:])), now)
}

// Count returns what counts at a time. older is the first chunk of Older that has not left, "" for none; newest are
// those of Newest.
func (g *Log) Count(older string, newest []string, now window.Instant) (backend.LimitCount, error) {
	base, oldest, found := g.base, g.oldest, g.tail != "" && g.counts(g.oldest, now)
	var list []backend.Bucket
	total, earlier := base, uint64(0)
	for i, chunk := range append(append([]string{older}, newest...), g.tail) {
		if chunk == "" && (i == 0 || g.tail == "") {
			continue
		}
		if !wholeChunk(chunk) {
			return backend.LimitCount{}, fmt.Errorf("%q is no chunk of a log of %v", chunk, g.limit)
		}
		before := uint64(number56(chunk))
		for rest := chunk[7:]; rest != ""; rest = rest[instant:] {
			at, upTo := window.Instant(number56(rest)), uint64(number56(rest[7:]))
			if at >= g.oldest && g.counts(at, now) {
				if !found {
					base, oldest, found = before, at, true
				}
				if i > 0 {
					list = addInstant(list, timeOf(min(at, now)), (upTo-before)&window.MaxCount)
				}
				total = upTo
			}
			before = upTo
		}
	}
	if listed := len(list) - backend.MaxInstants; listed > 0 {
		list = list[listed:]
	}
	earlier = (total - base) & window.MaxCount
	for _, b := range list {
		earlier -= b.Hits
	}
	return backend.NewLimitCount(g.limit, [][]backend.Bucket{list}, earlier, timeOf(min(oldest, now)), timeOf(now)), nil
}

// addInstant lists an instant. What is later than now counts at now: the clock stepped back.
func addInstant(list []backend.Bucket, at time.Time, hits uint64) []backend.Bucket {
	if last := len(list) - 1; last >= 0 && list[last].Begin.Equal(at) {
		list[last].Hits += hits
		return list
	}
	return append(list, backend.Bucket{Begin: at, Width: time.Microsecond, Hits: hits})
}

func timeOf(at window.Instant) time.Time { return time.UnixMicro(int64(at)).UTC() }
