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
	// keepLosses is how long the losses of a server are kept, from the last one on: longer than any window is.
	keepLosses = 400 * 24 * time.Hour
)

// losses notes when servers may have lost their counts, or keys have moved without them. Each absence counts as a loss.
type losses struct {
	shared bool // keys go from server to server, as on a ring: each loss may be one of any key

	mu      sync.Mutex
	servers map[string]*record
	primary string // address at which the primary that sentinels name was reached last
}

// record is the losses of one server.
type record struct {
	times []time.Time // the last ones, oldest first
	total int
}

func newLosses(c Config) *losses {
	return &losses{shared: c.Type == Ring, servers: make(map[string]*record)}
}

// note notes that a server may have lost its counts. A first loss drops servers that have lost nothing for keepLosses.
func (l *losses) note(server string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(server, now)
}

// add is note for a caller that holds mu.
func (l *losses) add(server string, now time.Time) {
	if l.shared {
		server = ""
	}
	r := l.servers[server]
	if r == nil {
		maps.DeleteFunc(l.servers, func(_ string, r *record) bool { return now.Sub(r.times[len(r.times)-1]) > keepLosses })
		r = new(record)
		l.servers[server] = r
	}
	r.total++
	if r.times = append(r.times, now); len(r.times) > maxLosses {
		r.times = slices.Delete(r.times, 0, 1)
	}
}

// reached notes the address of the primary that sentinels name. Another one is a loss: replicas lack what came last.
func (l *losses) reached(name, addr string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.primary != "" && l.primary != addr {
		l.add(name, now)
	}
	l.primary = addr
}

// since returns the losses from t on of the server that had most: all, where some of these are not kept.
func (l *losses) since(t time.Time) (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.servers {
		first, _ := slices.BinarySearchFunc(r.times, t, time.Time.Compare)
		n := len(r.times) - first
		if first == 0 {
			n = r.total
		}
		most = max(most, n)
	}
	return most
}
