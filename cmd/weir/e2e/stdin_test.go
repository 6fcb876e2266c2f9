package e2e_test

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whoever types weir check - and means something else must get out of it, and so must a pipeline that is cancelled.
func TestACheckThatWaitsForItsInputIsEndedByASignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		check := exec.Command(weirBinary, "check", "-")
		input, err := check.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Start(); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds, so that it has begun to read.
		if _, err := input.Write(bytes.Repeat([]byte("# more comes\n"), 100_000)); err != nil {
			t.Fatal(err)
		}
		if err := check.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(hang, func() { _ = check.Process.Kill() })
		if err := check.Wait(); !late.Stop() || err == nil || !strings.Contains(err.Error(), signal.String()) {
			t.Errorf("after %v weir check - ends with %v; want that this signal ends it", signal, err)
		}
	}
}
