package topology

import (
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/losslog"
)

// losses is when servers may have lost their counts, or keys went to another server without them.
type losses struct {
	losslog.Log
	shared bool // keys go from server to server, as on a ring: each loss may be one of any key

	mu      sync.Mutex
	primary string // address at which the primary that sentinels name was reached last
}

func newLosses(c Config) *losses { return &losses{shared: c.Type == Ring} }

// note notes that a server may have lost its counts.
func (l *losses) note(server string, now time.Time) {
	if l.shared {
		server = ""
	}
	l.Note(server, 1, now)
}

// reached notes the address of the primary that sentinels name. Another one is a loss: replicas lack what came last.
func (l *losses) reached(name, addr string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.primary != "" && l.primary != addr {
		l.note(name, now)
	}
	l.primary = addr
}
