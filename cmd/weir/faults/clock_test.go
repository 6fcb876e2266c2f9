package faults_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// clockwork is a server whose wall clock can be set.
var clockwork topology = func(s *scene) {
	dir := s.TempDir()
	library, offset := filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset")
	compile := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c"))
	if out, err := compile.CombinedOutput(); err != nil {
		s.Fatalf("building what shifts a clock: %v\n%s", err, out)
	}
	s.must(os.WriteFile(offset, make([]byte, 8), 0o600))
	s.clock = offset
	s.on(redistest.Single(s.T, redistest.WithEnvironment("LD_PRELOAD="+library, "CLOCK_OFFSET_FILE="+offset)))
}

// setClock shifts the server's clock from the true one, and wants it to say so.
func (s *scene) setClock(by time.Duration) {
	file, err := os.OpenFile(s.clock, os.O_WRONLY, 0)
	s.must(err)
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second))), 0)
	s.must(err, file.Close())
	now, err := s.servers[0].Client().Time(context.Background()).Result()
	s.must(err)
	if off := time.Until(now) - by; off.Abs() > time.Minute {
		s.Fatalf("the server's clock is %v from what it was set to: the fault did not happen", off)
	}
}

// stepClock lets the server's clock step ahead by an hour, and back.
func stepClock(s *scene) {
	s.setClock(time.Hour)
	s.breaks()
	s.hold()
	s.setClock(0)
	s.heals()
	time.Sleep(2 * s.row.lasts()) // what is denied then must have been counted after the step
}

// skewed is a server whose replicas' clocks are four seconds apart; its own lies between them.
var skewed topology = func(s *scene) {
	single(s)
	s.own = [][]string{{"CLOCK_SKEW=-2"}, {"CLOCK_SKEW=2"}}
}

// buildSkewed builds a weir whose time.Now is ahead by the seconds in CLOCK_SKEW: Go asks no library for the time that
// could be put in its place, so another one is compiled in.
func buildSkewed(t *testing.T) string {
	dir := t.TempDir()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("asking for GOROOT: %v", err)
	}
	source := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	now, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !bytes.Contains(now, []byte(reads)) {
		t.Fatalf("%s/time.go reads the clock in another way than %q: teach this row the new one", source, reads)
	}
	shifted := filepath.Join(dir, "time.go")
	added, err := filepath.Abs(filepath.Join("testdata", "skew.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "time.go"):       shifted,
		filepath.Join(source, "clock_skew.go"): added,
	}})
	if err != nil {
		t.Fatal(err)
	}
	binary, description := filepath.Join(dir, "weir"), filepath.Join(dir, "overlay.json")
	err = errors.Join(
		os.WriteFile(shifted, bytes.Replace(now, []byte(reads), []byte(reads+"\tsec += clockSkew\n"), 1), 0o600),
		os.WriteFile(description, overlay, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", description, "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("building a weir with a clock of its own: %v\n%s", err, out)
	}
	return binary
}

// elapse lets time pass: the fault is there all the while. What replicas write into answers shows that it is.
func elapse(s *scene) {
	s.breaks()
	s.hold()
	for i, r := range s.replicas {
		want := []time.Duration{-2 * time.Second, 2 * time.Second}[i]
		redistest.Eventually(s.T, "a replica's clock is off", func() error {
			answer, err := curious.Get(r.admin + "/livez")
			if err != nil {
				return err
			}
			answer.Body.Close()
			now, err := http.ParseTime(answer.Header.Get("Date")) // in whole seconds
			if off := time.Until(now) - want; err != nil || off < -1500*time.Millisecond || off > 500*time.Millisecond {
				return fmt.Errorf("it is %v off, want %v (%v)", off+want, want, err)
			}
			return nil
		})
	}
}
