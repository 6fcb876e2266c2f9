package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// socketPath returns a short path, because the path of a socket may have 107 bytes at most.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "weir.sock")
}

// A restarted container must listen again at the path where its killed process left a socket.
func TestUnixSocketServesUntilTheDrainEnds(t *testing.T) {
	path := socketPath(t)
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false) // as after kill -9
	left.Close()
	r := start(t, setup{Config: Config{GRPCAddress: "unix:" + path, DrainDelay: time.Hour, DrainTimeout: time.Hour}})
	r.configure(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != socketMode {
		t.Fatalf("the socket is %v, %v; want mode %o, so that an Envoy of another user may connect", info, err, socketMode)
	}
	ask := func() error {
		_, err := r.client().ShouldRateLimit(context.Background(), ask(t, "user=ann"))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := ask(); err != nil {
		t.Errorf("in the drain: %v; want answers until its delay is over", err)
	}
	r.kill()
	if err := await(t, "the server ends", r.ended); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end the socket is still there (%v): the next process would have to ask whose it is", err)
	}
}

func TestListenKeepsForeignFiles(t *testing.T) {
	taken := socketPath(t)
	other, err := net.Listen("unix", taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	file := socketPath(t)
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		taken: "another process listens on", file: "is no socket", filepath.Join(file, "below"): "not a directory",
	} {
		if _, err := listen("unix:"+path, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("listening on %s: %v; want an error that says %q", path, err, want)
		}
		if _, err := os.Lstat(filepath.Clean(strings.TrimSuffix(path, "/below"))); err != nil {
			t.Errorf("%s is gone: %v", path, err)
		}
	}
}

func TestProcessesShareTheirPorts(t *testing.T) {
	first := start(t, setup{Config: Config{ReusePort: true, DrainTimeout: time.Hour}})
	first.configure(t)
	second := start(t, setup{Config: Config{ReusePort: true, GRPCAddress: first.listener.Addr().String()}})
	second.configure(t)
	ask := func(r *running) {
		t.Helper()
		if _, err := r.client().ShouldRateLimit(t.Context(), ask(t, "user=ann")); err != nil {
			t.Errorf("a call to a port that two share: %v", err)
		}
	}
	ask(first)
	first.stop()
	if err := await(t, "the first of two ends", first.ended); err != nil {
		t.Fatal(err)
	}
	ask(second)
	if lis, err := listen(second.listener.Addr().String(), false); err == nil {
		lis.Close()
		t.Error("a process that does not share got a port that others have: a forgotten one would take half the calls unseen")
	}
}
