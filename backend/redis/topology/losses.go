package topology

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

// losses notes when servers may have lost their counts, or keys went to another server without them. What a server that
// was away still holds is unknown, so each absence is a loss.
type losses struct {
	mu      sync.Mutex
	of      map[string]*record
	missing map[string]bool   // nodes of a ring whose keys are on others
	at      map[string]string // where the primary was reached last, by the name of its sentinels
}

// record is the losses of one server.
type record struct {
	times []time.Time // the last ones, oldest first
	total int
}

func newLosses() *losses {
	return &losses{of: make(map[string]*record), missing: make(map[string]bool), at: make(map[string]string)}
}

// note notes that a server may have lost its counts.
func (l *losses) note(server string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(server, now)
}

// add adds a loss to the record of a server, and to those of a ring's missing nodes, whose keys may be on it. The
// caller holds mu.
func (l *losses) add(server string, now time.Time) {
	l.record(server, now)
	for missing := range l.missing {
		if missing != server {
			l.record(missing, now)
		}
	}
}

// moved notes that the keys of a ring's node went to others, or came back.
func (l *losses) moved(node string, away bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(node, now)
	if away {
		l.missing[node] = true
	} else {
		delete(l.missing, node)
	}
}

// joined notes that a ring has other nodes now: each may have got keys of any other.
func (l *losses) joined(nodes []string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.missing {
		if !slices.Contains(nodes, name) {
			delete(l.missing, name)
		}
	}
	for _, name := range nodes {
		l.record(name, now)
	}
}

// reached notes the address of the primary that sentinels name. Another one is a loss: replicas lack what came last.
func (l *losses) reached(name, addr string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.at[name]; before != "" && before != addr {
		l.add(name, now)
	}
	l.at[name] = addr
}

// record adds a loss to the record of a server. With the first one it forgets the records of servers that have lost
// nothing for long.
func (l *losses) record(server string, now time.Time) {
	r := l.of[server]
	if r == nil {
		maps.DeleteFunc(l.of, func(_ string, r *record) bool { return now.Sub(r.times[len(r.times)-1]) > remembered })
		r = new(record)
		l.of[server] = r
	}
	r.total++
	if r.times = append(r.times, now); len(r.times) > maxLosses {
		r.times = slices.Delete(r.times, 0, 1)
	}
}

// since returns the losses from t on of the server that had most.
func (l *losses) since(t time.Time) (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.of {
		most = max(most, r.since(t))
	}
	return most
}

// since returns how many losses there were from t on, at most: where some of these are not remembered, all.
func (r *record) since(t time.Time) int {
	first, _ := slices.BinarySearchFunc(r.times, t, time.Time.Compare)
	if first == 0 {
		return r.total
	}
	return len(r.times) - first
}
