package faults_test

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/process"
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

// stepClock lets the server's clock step ahead by an hour, and back. Windows go by it: a key whose minute is used up is
// admitted after the step, though no clock of a replica has moved.
func stepClock(s *scene) {
	if s.minutely(1) != rlspb.RateLimitResponse_OK || s.minutely(0) != rlspb.RateLimitResponse_OVER_LIMIT {
		s.errorf("of a key with a hit a minute one was not admitted and the next one denied")
	}
	s.setClock(time.Hour)
	s.breaks()
	if s.minutely(0) != rlspb.RateLimitResponse_OK {
		s.errorf("a key is denied an hour after its minute, by Redis's clock: windows must go by that one, which all replicas share")
	}
	s.hold()
	s.stepsFrom = s.record.now() // on a busy machine, long before the step is over
	s.setClock(0)
	s.heals()
	time.Sleep(2 * s.row.lasts()) // what is denied then must have been counted after the step
}

// minutely asks for a key that is admitted once a minute, with so many hits.
func (s *scene) minutely(hits int) rlspb.RateLimitResponse_Code {
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang)
	defer cancel()
	question := request(minutePlan, "clock")
	question.Descriptors[0].HitsAddend = wrapperspb.UInt64(uint64(hits))
	answer, err := s.replicas[0].rls.ShouldRateLimit(ctx, question)
	s.must(err)
	s.besides += hits
	return answer.OverallCode
}
