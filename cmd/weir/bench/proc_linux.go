package main

import (
	"bytes"
	"fmt"
	"os"
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

// residentBytes returns the memory of a process that is in RAM.
func residentBytes(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	var kilobytes int64
	_, after, _ := bytes.Cut(status, []byte("\nVmRSS:"))
	if _, err := fmt.Sscan(string(after), &kilobytes); err != nil {
		return 0, fmt.Errorf("memory of process %d: no VmRSS in %s: %w", pid, path, err)
	}
	return kilobytes << 10, nil
}
