package redistest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// longest bounds what Eventually waits for. It only ends a test that hangs: a busy machine may take its time.
const longest = time.Minute

// Eventually waits until check returns nil, and returns how long that took. It fails the test after a minute, with the
// promise and check's last error.
func Eventually(t testing.TB, promise string, check func() error) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		err := check()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > longest {
			t.Fatalf("not within %v: %s: %v", longest, promise, err)
		}
	}
}

// Log is a writer for loggers of tests. It may be used by any number of goroutines.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Contains returns an error with the whole log unless a text is in it.
func (l *Log) Contains(text string) error {
	if log := l.String(); !strings.Contains(log, text) {
		return fmt.Errorf("%q is not in the log:\n%s", text, log)
	}
	return nil
}
