package historyfire

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
)

// seriesCount is how many series there are. Some share a partition, as series do. The last one is full soon, see fill.
const (
	seriesCount = 21
	full        = seriesCount - 1
)

// seriesOf is one of them.
func seriesOf(n int) history.ID {
	return history.ID{Domain: "fire", Path: fmt.Sprint("rule", n), Outcome: history.Outcome(n % history.Outcomes)}
}

// numbers are the series by ID.
var numbers = func() map[history.ID]int {
	all := make(map[history.ID]int)
	for n := range seriesCount {
		all[seriesOf(n)] = n
	}
	return all
}()

// hits are hits by series.
type hits [seriesCount]uint64

func (h *hits) add(other *hits) {
	for n := range h {
		h[n] += other[n]
	}
}

func (h *hits) sum() (sum uint64) {
	for _, n := range h {
		sum += n
	}
	return sum
}

// String lists them, without spaces.
func (h *hits) String() string {
	var b strings.Builder
	for n, count := range h {
		if count > 0 {
			fmt.Fprintf(&b, "%d:%d,", n, count)
		}
	}
	return b.String()
}

func parseHits(text string) (h hits, err error) {
	for one := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		var n int
		var count uint64
		if _, err := fmt.Sscanf(one, "%d:%d", &n, &count); err != nil {
			return h, fmt.Errorf("%q in a ledger: %w", one, err)
		}
		h[n] += count
	}
	return h, nil
}

// sender is a writer in a partition, where its batches have numbers of their own.
type sender struct {
	writer string
	p      history.Partition
}

// account is what the ledger of one process says. The process wrote each line before it went on, and the kernel keeps
// what a killed process has written.
type account struct {
	recorded hits
	sent     map[sender][]hits            // by number, from 1
	acked    map[sender]map[uint64]uint64 // by number, what was refused of those that the store has acknowledged
	forgot   map[sender]map[uint64]bool   // of these, those that it then said it has not
	final    *export.Stats
}

// Lines of a ledger: R hits, S writer partition number hits, A writer partition number refused, G writer partition and the
// last number that the store has after it has forgotten some, X and the exporter's figures.
func readLedger(path string) (*account, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := &account{sent: make(map[sender][]hits), acked: make(map[sender]map[uint64]uint64),
		forgot: make(map[sender]map[uint64]bool)}
	for line := range strings.Lines(string(content)) {
		if err := a.read(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
	}
	return a, nil
}

func (a *account) read(fields []string) error {
	var s sender
	var seq uint64
	switch fields[0] {
	case "R":
		h, err := parseHits(fields[1])
		a.recorded.add(&h)
		return err
	case "X":
		st := &export.Stats{}
		_, err := fmt.Sscan(strings.Join(fields[1:], " "), &st.Recorded, &st.Landed, &st.Clamped, &st.Refused, &st.Lost,
			&st.Resent, &st.Waiting, &st.Dropped[export.Shutdown], &st.Unsettled)
		a.final = st
		return err
	}
	if _, err := fmt.Sscan(strings.Join(fields[1:4], " "), &s.writer, &s.p, &seq); err != nil {
		return err
	}
	switch fields[0] {
	case "A":
		refused, err := strconv.ParseUint(fields[4], 10, 64)
		if a.acked[s] == nil {
			a.acked[s] = make(map[uint64]uint64)
		}
		a.acked[s][seq] = refused
		delete(a.forgot[s], seq)
		return err
	case "G":
		if a.forgot[s] == nil {
			a.forgot[s] = make(map[uint64]bool)
		}
		maps.DeleteFunc(a.acked[s], func(n, _ uint64) bool {
			if n > seq {
				a.forgot[s][n] = true
			}
			return n > seq
		})
		return nil
	}
	h, err := parseHits(fields[4])
	if got := uint64(len(a.sent[s])) + 1; err == nil && got != seq {
		err = fmt.Errorf("batch %d comes after %d", seq, got-1)
	}
	a.sent[s] = append(a.sent[s], h)
	return err
}

// finalLine is what a writer that ends by itself writes last.
func finalLine(st export.Stats) string {
	dropped := uint64(0)
	for _, n := range st.Dropped {
		dropped += n
	}
	return fmt.Sprintln("X", st.Recorded, st.Landed, st.Clamped, st.Refused, st.Lost, st.Resent, st.Waiting, dropped, st.Unsettled)
}
