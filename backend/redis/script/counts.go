package script

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// peekTokens returns what the field of a token bucket says at now.
func peekTokens(field string, l *descriptors.Limit, now window.Instant) (hits uint64, reset time.Duration) {
	if len(field) != 4*7 {
		return 0, 0
	}
	tokens, sound := window.RestoreTokens(l.Window, uint64(number56(field)), window.Instant(number56(field[7:])),
		window.Instant(number56(field[14:])), uint64(number56(field[21:])))
	if !sound {
		return 0, 0
	}
	return tokens.Peek(l, now)
}

// The lengths of what a header holds before what it tells of leases.
const windowHeader, fixedHeader = 6 * 7, 2 * 7

// leased returns how many hits of the live bucket of a limit are leased at now: granted, and not settled.
func leased(header string, l *descriptors.Limit, now window.Instant) uint64 {
	size, live := windowHeader, 4*7
	if l.Algorithm == descriptors.FixedWindow {
		size, live = fixedHeader, 0
	}
	if len(header) < size+7 || number56(header[live:]) != int64(now)/l.Levels()[0].Microseconds() {
		return 0
	}
	return uint64(number56(header[size:]))
}

// Buckets lists the buckets of a limit that count at now, the finest level first, and on each the oldest bucket first.
// A coarse bucket has those of its hits that count. A token bucket has none.
func Buckets(fields map[string]string, l *descriptors.Limit, now window.Instant) [][]backend.Bucket {
	header, levels := fields[HeaderField(l)], l.Levels()
	if l.Algorithm == descriptors.FixedWindow {
		return fixedBuckets(header, l, now)
	}
	out := make([][]backend.Bucket, len(levels))
	if len(levels) == 0 || len(header) < windowHeader {
		return out
	}
	count := func(finest int64, hits uint64) {
		begin := time.UnixMicro(finest * levels[0].Microseconds()).UTC()
		for i, width := range levels {
			out[i] = addBucket(out[i], backend.Bucket{Begin: begin.Truncate(width), Width: width, Hits: hits})
		}
	}
	left := now.Plus(-l.Window)
	oldest := max(number56(header[7:]), int64(left)/levels[0].Microseconds())
	if number56(header) > 0 {
		countChunks(fields, l, oldest, number56(header[14:]), count)
	}
	live, hits := number56(header[28:]), uint64(number56(header[35:])) // in no chunk yet
	if hits > 0 && window.Instant((live+1)*levels[0].Microseconds()) > left {
		count(live, hits)
	}
	return out
}

// countChunks counts the finest buckets of a limit from oldest to newest, given their numbers. Of the finer chunks only
// those count whose bucket above does: others are left over. The newest coarse bucket always does, as it is not written
// yet.
func countChunks(fields map[string]string, l *descriptors.Limit, oldest, newest int64, count func(int64, uint64)) {
	levels := l.Levels()
	top := len(levels) - 1
	var chunks []int64 // the number of a chunk is that of the bucket above
	span := int64(levels[top]/levels[0]) * topFan
	for number := oldest / span; number <= newest/span; number++ {
		chunks = append(chunks, number)
	}
	prefix := append(appendName(nil, l), 0)
	for level := top; level >= 0; level-- {
		per, fan := int64(levels[level]/levels[0]), int64(fan(levels, level))
		first, last := oldest/per, newest/per
		prefix[len(prefix)-1] = '1' + byte(level)
		var below []int64
		for _, number := range chunks {
			chunk := fields[string(binary.LittleEndian.AppendUint32(prefix[:len(prefix):len(prefix)], uint32(number)))]
			size := int64(len(chunk)) / fan
			for i := max(first, number*fan); size > 0 && i <= min(last, number*fan+fan-1); i++ {
				at := (i - number*fan) * size
				switch hits := uint64(little(chunk[at : at+size])); {
				case level == 0 && hits > 0:
					count(i, hits)
				case hits > 0 || i == last:
					below = append(below, i)
				}
			}
		}
		chunks = below
	}
}

// addBucket lists a bucket, or adds its hits to the last one if that begins at the same moment.
func addBucket(list []backend.Bucket, b backend.Bucket) []backend.Bucket {
	if last := len(list) - 1; last >= 0 && list[last].Begin.Equal(b.Begin) {
		list[last].Hits += b.Hits
		return list
	}
	return append(list, b)
}

func fixedBuckets(header string, l *descriptors.Limit, now window.Instant) [][]backend.Bucket {
	if len(header) < fixedHeader {
		return [][]backend.Bucket{nil}
	}
	begin := window.Instant(number56(header)) * window.Instant(l.Window.Microseconds())
	hits := number56(header[7:])
	if hits == 0 || begin.Plus(l.Window) <= now {
		return [][]backend.Bucket{nil}
	}
	return [][]backend.Bucket{{{Begin: time.UnixMicro(int64(begin)).UTC(), Width: l.Window, Hits: uint64(hits)}}}
}

func number56(s string) int64 { return little(s[:7]) }

// little reads a little-endian number.
func little(s string) (v int64) {
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | int64(s[i])
	}
	return v
}

// HeaderField returns the name of the header of a sliding window or log, and of the one field of a fixed window or token
// bucket.
func HeaderField(l *descriptors.Limit) string { return string(appendName(nil, l)) }

const (
	logHeader = 6 * 7 // bytes of a log's header before the tail
	instant   = 2 * 7 // bytes of an instant and the total up to it
	logChunk  = 32    // instants of a full chunk
)

// log is what the header of a sliding log says. The zero log holds nothing.
type log struct {
	limit       *descriptors.Limit
	base        uint64         // the total before the oldest instant
	oldest      window.Instant // that counted at the last check
	first, last uint64         // numbers of the chunk of the oldest, and of the tail
	tail        string
}

// readLog reads the header of a limit's log, "" if there is none.
func readLog(header string, l *descriptors.Limit) (log, error) {
	if header == "" {
		return log{limit: l}, nil
	}
	if len(header) < logHeader || !wholeChunk(header[logHeader:]) {
		return log{}, fmt.Errorf("%q is no header of a log of %v", header, l)
	}
	return log{
		limit: l, base: uint64(number56(header)), oldest: window.Instant(number56(header[7:])),
		first: uint64(number56(header[14:])), last: uint64(number56(header[21:])), tail: header[logHeader:],
	}, nil
}

func wholeChunk(text string) bool { return len(text)%instant == 7 }

func (g *log) counts(at, now window.Instant) bool { return at.Plus(g.limit.Window) > now }

// left reports whether all instants of a chunk have left the window at a time.
func (g *log) left(chunk string, now window.Instant) bool {
	return wholeChunk(chunk) && len(chunk) > 7 && !g.counts(window.Instant(number56(chunk[len(chunk)-instant:])), now)
}

// CountLog returns what counts of a limit's log at now. It reads the header and the newest chunks, and, if the oldest
// instant of the header has left, the chunks that lead to the first one that has not. read returns fields of the key,
// "" for those that are not there.
func CountLog(l *descriptors.Limit, now window.Instant, read func(fields ...string) ([]string, error)) (
	backend.LimitCount, error) {
	header, err := read(HeaderField(l))
	if err != nil {
		return backend.LimitCount{}, err
	}
	g, err := readLog(header[0], l)
	if err != nil {
		return backend.LimitCount{}, err
	}
	chunks := func(from, to uint64) (texts []string) {
		var names []string
		for number := from; number < to; number++ {
			names = append(names, string(append56(append(appendName(nil, l), ':'), number)))
		}
		if len(names) > 0 && err == nil {
			texts, err = read(names...)
		}
		return texts
	}
	newest := max(g.first, g.last-min(g.last, backend.MaxInstants/logChunk+1))
	var older string // the first chunk before the newest that has not left
	if !g.counts(g.oldest, now) {
		from := g.first + uint64(sort.Search(int(newest-g.first), func(i int) bool {
			text := chunks(g.first+uint64(i), g.first+uint64(i)+1)
			return err != nil || !g.left(text[0], now)
		}))
		older = strings.Join(chunks(from, min(from+1, newest)), "")
	}
	texts := chunks(newest, g.last)
	if err != nil {
		return backend.LimitCount{}, err
	}
	return g.count(older, texts, now)
}

// count returns what counts at a time in the first older chunk that has not left, "" for none, in the newest and in the
// header.
func (g *log) count(older string, newest []string, now window.Instant) (backend.LimitCount, error) {
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
				if i > 0 { // what is later than now counts at now: the clock stepped back
					list = addBucket(list, backend.Bucket{Begin: timeOf(min(at, now)), Width: time.Microsecond,
						Hits: (upTo - before) & window.MaxCount})
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
	return backend.NewLimitCount(*g.limit, [][]backend.Bucket{list}, earlier, timeOf(min(oldest, now)), timeOf(now)), nil
}

func timeOf(at window.Instant) time.Time { return time.UnixMicro(int64(at)).UTC() }
