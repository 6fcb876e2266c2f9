package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Command runs a program that ends by itself, in a folder of its own and an environment that holds env and little else.
// It returns what that printed on both outputs, nothing else, and its exit code.
func Command(t testing.TB, env []string, binary string, args ...string) (printed string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	dieWithThread(cmd.SysProcAttr)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runtime.LockOSThread() // the thread that it dies with must live as long as it
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%s %q has not ended within %v, and printed:\n%s", binary, args, Hang, &out)
	case err != nil && !errors.As(err, &ended):
		t.Fatalf("running %s %q: %v", binary, args, err)
	case strings.Contains(out.String(), "DATA RACE"):
		t.Errorf("the race detector found a data race in %s %q:\n%s", binary, args, &out)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}
