package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

const hang = process.Hang

// eventually polls until check is content, and returns how long that took.
func eventually(t *testing.T, promise string, check func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		asked := time.Now()
		err := check()
		if err == nil {
			return time.Since(began)
		}
		if asked.Sub(began) > hang {
			t.Fatalf("not within %v: %s: %v", hang, promise, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// patient gives up before the tests' own time is over, so that a process which hangs is named.
var patient = &http.Client{Timeout: hang}

// wantStatus asks a URL and complains unless the answer has that status.
func wantStatus(url string, status int) error {
	answer, err := patient.Get(url)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != status {
		return fmt.Errorf("%s answers %d, want %d", url, answer.StatusCode, status)
	}
	return nil
}
