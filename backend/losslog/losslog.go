// Package losslog remembers when servers may have lost their counts. What a server that was away still holds is
// unknown, so each absence is a loss.
package losslog

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxLosses is how many losses of a server are remembered one by one.
	maxLosses = 256
	// remembered is for how long the losses of a server are, from the last one on: longer than any window is.
	remembered = 400 * 24 * time.Hour
)

// Log is the losses of servers, by their names. The zero value is empty. Its methods may be called by any number of
// goroutines.
type Log struct {
	mu sync.Mutex
	of map[string]*record
}

// record is the losses of one server.
type record struct {
	last  []loss // oldest first
	total int
}

// loss is when a server may have lost its counts, and how often it had before.
type loss struct {
	at     time.Time
	before int
}

// Note notes that a server may have lost the counts of a key so many times. With a server's first loss it forgets
// servers that have lost nothing for 400 days.
func (l *Log) Note(server string, times int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[server]
	if r == nil {
		maps.DeleteFunc(l.of, func(_ string, r *record) bool { return now.Sub(r.last[len(r.last)-1].at) > remembered })
		if l.of == nil {
			l.of = make(map[string]*record)
		}
		r = new(record)
		l.of[server] = r
	}
	if r.last = append(r.last, loss{now, r.total}); len(r.last) > maxLosses {
		r.last = slices.Delete(r.last, 0, 1)
	}
	r.total += times
}

// Since returns the losses from t on of the server that had most: where some of these are not remembered, all.
func (l *Log) Since(t time.Time) (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.of {
		first, _ := slices.BinarySearchFunc(r.last, t, func(one loss, t time.Time) int { return one.at.Compare(t) })
		switch {
		case first == 0:
			most = max(most, r.total)
		case first < len(r.last):
			most = max(most, r.total-r.last[first].before)
		}
	}
	return most
}
