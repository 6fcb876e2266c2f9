package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// drainDelay is how long a replica that is replaced answers after SIGTERM, noticed is when its clients leave it.
func drainDelay() time.Duration { return form(2*time.Second, 5*time.Second) }
func noticed() time.Duration    { return form(1500*time.Millisecond, 3*time.Second) }

// replace ends a replica as a rollout does, while clients go on asking it for a while, and starts it from a binary.
func (s *scene) replace(r *replica, binary string) {
	s.Helper()
	told := time.Now()
	r.Terminate(s.T)
	flipped := redistest.Eventually(s.T, "/readyz says that it drains", func() error {
		if wantStatus(r.admin+"/readyz") == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	time.Sleep(time.Until(told.Add(noticed())))
	r.out.Store(true)
	if code := r.ExitCode(s.T); code != 0 {
		s.errorf("a replica ended with exit code %d after SIGTERM, want 0", code)
	}
	if len(s.notes) < 2 {
		s.note("not ready after %s of 100ms, gone after %s of %v", brief(flipped), brief(time.Since(told)), drainDelay()+2*time.Second)
	}
	r.start(s.T, binary)
	redistest.Eventually(s.T, "a new replica counts", func() error { return r.look(countPlan, "0", s.row.budget) })
	r.out.Store(false)
}

// drainOne replaces one replica after the other; in the long form until there have been 100,000 calls.
func drainOne(s *scene) {
	s.breaks()
	for n := 0; n == 0 || *long && s.load.sent.Load() < 100_000; n++ {
		s.replace(s.replicas[n%replicas], weirBinary)
	}
	time.Sleep(warm())
}

// releaseBefore is the commit that stands for the release before this one.
const releaseBefore = "d3d791e206a84dbc65cfb83acf273d260eec9533"

// beforeBinary is the release before, which buildBefore has built.
var beforeBinary string

// buildBefore builds the release before from the repository's history. Where that is missing, the long form fails; the
// short one says so and lets this release stand for it.
func buildBefore(t *testing.T) string {
	dir := t.TempDir()
	binary := filepath.Join(dir, "weir")
	err := func() error {
		archive := exec.Command("git", "-C", root, "archive", releaseBefore)
		var said bytes.Buffer
		archive.Stderr = &said
		files, err := archive.Output()
		if err != nil {
			return fmt.Errorf("git archive %s: %w: %s", releaseBefore, err, said.String())
		}
		unpack := exec.Command("tar", "-x", "-C", dir)
		unpack.Stdin = bytes.NewReader(files)
		if out, err := unpack.CombinedOutput(); err != nil {
			return fmt.Errorf("tar: %w: %s", err, out)
		}
		build := exec.Command("go", "build", "-o", binary, "./cmd/weir")
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", releaseBefore, err, out)
		}
		return nil
	}()
	switch {
	case err == nil:
		beforeBinary = binary
	case *long:
		t.Fatalf("row 21 needs the release before, from the repository's whole history: %v", err)
	default:
		t.Logf("NOT TESTED HERE: the release before this one cannot be built (%v); this one stands for it", err)
		beforeBinary = weirBinary
	}
	return beforeBinary
}

// rollOver replaces the release before by this one, and this one by the release before.
func rollOver(s *scene) {
	s.breaks()
	for _, release := range []struct{ to, from string }{{weirBinary, beforeBinary}, {beforeBinary, weirBinary}} {
		for _, r := range s.replicas {
			s.replace(r, release.to)
		}
		s.verifies(release.from)
	}
	if beforeBinary == weirBinary {
		s.note("NOT TESTED HERE: the release before is not in this repository's history")
	}
}
