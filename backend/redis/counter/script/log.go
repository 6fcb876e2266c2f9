package script

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// LogRange returns where the members of a log stand in its set: from the first to behind the last, as ZRANGEBYLEX wants
// it.
func LogRange(l *descriptors.Limit) (from, to string) {
	name := string(appendName(nil, l))
	return "[" + name, "(" + name + "\xff"
}

// LogStart returns where the members of a log stand that count at now; they go up to the end of LogRange.
func LogStart(l *descriptors.Limit, now window.Instant) string {
	var from [8]byte
	binary.BigEndian.PutUint64(from[:], uint64(max(0, now.Plus(-l.Window)+1)))
	return "[" + string(appendName(nil, l)) + string(from[1:])
}

// member is what a set holds of one instant.
type member struct {
	at    window.Instant
	total uint64 // hits of the limit up to this member, modulo 2^53
	hits  uint64
}

func readMember(text string, l *descriptors.Limit) (member, error) {
	numbers, mine := strings.CutPrefix(text, string(appendName(nil, l)))
	if !mine || len(numbers) != 3*7 {
		return member{}, fmt.Errorf("%q is no member of the log of %v", text, l)
	}
	number := func(i int) (v uint64) {
		for _, b := range []byte(numbers[7*i : 7*i+7]) {
			v = v<<8 | uint64(b)
		}
		return v
	}
	return member{at: window.Instant(number(0)), total: number(1), hits: number(2)}, nil
}

// upto returns how many hits count from the member first to m.
func (m member) upto(first member) uint64 { return (m.total-first.total)&window.MaxCount + first.hits }

// CountLog returns what a log holds at now. newest are its last members, as ZREVRANGEBYLEX gives them; first is the
// first that counts, if there is one, and may have been read later.
func CountLog(l descriptors.Limit, newest, first []string, now window.Instant) (backend.LimitCount, error) {
	var members []member
	for _, text := range slices.Backward(newest) {
		m, err := readMember(text, &l)
		if err != nil {
			return backend.LimitCount{}, err
		}
		if m.at.Plus(l.Window) > now {
			members = append(members, m)
		}
	}
	if len(members) == 0 {
		return backend.NewLogCount(l, nil, 0, time.Time{}, timeOf(now)), nil
	}
	oldest, earlier := members[0], uint64(0)
	for _, text := range first {
		m, err := readMember(text, &l)
		if err != nil {
			return backend.LimitCount{}, err
		}
		if m.at < oldest.at {
			earlier = oldest.upto(m) - oldest.hits
			oldest = m
		}
	}
	return backend.NewLogCount(l, instants(members, now), earlier, timeOf(min(oldest.at, now)), timeOf(now)), nil
}

// instants lists members, the oldest first. What is later than now counts at now: the clock stepped back.
func instants(members []member, now window.Instant) (list []backend.Bucket) {
	for _, m := range members {
		at := timeOf(min(m.at, now))
		if last := len(list) - 1; last >= 0 && list[last].Begin.Equal(at) {
			list[last].Hits += m.hits
			continue
		}
		list = append(list, backend.Bucket{Begin: at, Width: time.Microsecond, Hits: m.hits})
	}
	return list
}

func timeOf(at window.Instant) time.Time { return time.UnixMicro(int64(at)).UTC() }
