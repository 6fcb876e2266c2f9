package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time, user and system, that all threads of a process have used, those that ended
// included. It comes from the process's own CPU clock in nanoseconds; /proc/PID/stat would round it to 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	const allThreadsByScheduler = 2 // clock_getcpuclockid(3) writes the clock of a process as its inverted id and this
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|allThreadsByScheduler), &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
