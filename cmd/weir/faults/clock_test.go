package faults_test

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// clockwork is a server whose wall clock can be set.
var clockwork topology = func(s *scene) {
	dir := s.TempDir()
	library, offset := filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset")
	if out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
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
