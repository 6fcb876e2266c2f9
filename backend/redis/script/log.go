package script

import (
	"fmt"
	"sort"
	"strings"
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
	return backend.NewLogCount(*g.limit, list, earlier, timeOf(min(oldest, now)), timeOf(now)), nil
}

func timeOf(at window.Instant) time.Time { return time.UnixMicro(int64(at)).UTC() }
