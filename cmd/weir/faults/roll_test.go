package faults_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// drainDelays are how long a replica that is replaced answers after SIGTERM: much longer than its clients need to leave.
// A row in which they needed longer is played again with the next one, as then the machine stood still.
var drainDelays = []time.Duration{4 * time.Second, 12 * time.Second, 36 * time.Second}

// replace ends a replica as a rollout does, while clients go on asking it for a while, and starts it from a binary.
func (s *scene) replace(r *replica, binary string) {
	s.Helper()
	told := time.Now()
	r.Terminate(s.T)
	process.Eventually(s.T, "/readyz says that it drains", func() error {
		return weirtest.WantStatus(r.Admin+"/readyz", 503)
	})
	before := r.answered.Load()
	process.Eventually(s.T, "clients that have not left yet are answered", func() error {
		if n := r.answered.Load() - before; n < 50 {
			return fmt.Errorf("%d calls of 50", n)
		}
		return nil
	})
	r.out.Store(true)
	process.Eventually(s.T, "all clients have left", func() error {
		if n := r.underWay.Load(); n > 0 {
			return fmt.Errorf("%d calls are under way", n)
		}
		return nil
	})
	if took := time.Since(told); took > s.drainDelay {
		s.starved = fmt.Sprintf("the machine let clients leave %v after SIGTERM, when the drain of %v was over", took, s.drainDelay)
	}
	if code := r.ExitCode(s.T); code != 0 {
		s.errorf("a replica ended with exit code %d after SIGTERM, want 0", code)
	}
	r.Start(s.T, binary, "serve", "--config", r.Config)
	r.AwaitReady(s.T)
	process.Eventually(s.T, "a new replica counts", func() error { return r.look("0", s.row.budget) })
	r.out.Store(false)
}

// drainOne replaces one replica after the other; in the long form until there have been 100,000 calls.
func drainOne(s *scene) {
	s.breaks()
	for n := 0; n == 0 || *longForm && s.load.sent.Load() < 100_000; n++ {
		s.replace(s.replicas[n%replicas], process.Weir(s.T))
	}
	time.Sleep(warmUp())
}

// releaseBefore is the commit that stands for the release before this one.
const releaseBefore = "cb922639a3882f7895beda435788c358faaa4516"

// withBefore builds the release before from the repository's history, which must be whole, beside a server.
func withBefore(s *scene) {
	single(s)
	root, err := process.Root()
	s.must(err)
	dir := s.TempDir()
	s.before = filepath.Join(dir, "weir")
	for _, command := range []string{
		fmt.Sprintf("git -C %q archive %s | tar -x -C %q", root, releaseBefore, dir),
		fmt.Sprintf("cd %q && go build -trimpath -buildvcs=false -o %q ./cmd/weir", dir, s.before),
	} {
		if out, err := exec.Command("bash", "-o", "pipefail", "-c", command).CombinedOutput(); err != nil {
			s.Fatalf("row 21 needs the release before: %s: %v\n%s", command, err, out)
		}
	}
}

// rollOver replaces this release by the one before, as who goes back does, and that by this one.
func rollOver(s *scene) {
	this := process.Weir(s.T)
	s.breaks()
	for _, release := range []struct{ to, from string }{{s.before, this}, {this, s.before}} {
		for _, r := range s.replicas {
			s.replace(r, release.to)
		}
		s.verifies(release.from)
	}
}
