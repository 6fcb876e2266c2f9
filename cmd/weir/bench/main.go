// Command bench measures what a request costs weir, in floors.
//
// The floor is a plain grpc-go server whose handler returns a constant answer: what any server built on grpc-go pays
// before it has decided anything. The bench starts it and weir as child processes and sends both the same load:
// encoded requests, keys spread over ten thousand values, on two connections with 16 requests in flight each. In each
// of several rounds the floor and then every scenario gets its turn. A scenario's cost is the CPU time that the
// server's process used, user and system, by the kernel's clock of that process, divided by the requests it answered
// meanwhile; in floors, divided by the floor's cost in the same round. A request of three descriptors is one request.
// Latencies are taken under that full load and then at half of the rate that it reached, on a timetable that does not
// wait for answers: a request counts from the moment it was due. Answers are checked, so that a server with other rules
// yields an error and not a fine figure.
//
// Some scenarios run against one weir on the memory backend, so each bears the garbage collection of a heap that holds
// the keys of all; the others against a second one, whose store is a redis-server that the bench starts as well. What a
// request costs that redis-server is given in INCRBYs: its CPU time in the same phase, over what one of 32 pipelined
// INCRBYs cost it right before.
//
// Requests with long values have a deadline and more of them are in flight. They are compared with a floor of their own,
// which reads the same requests, and by the answers a second that came in time: what matters is whether Envoy still gets
// its answer.
//
// With --envoy the load goes through a real Envoy, of .tools or PATH, which asks the floor, asks weir (RLS), or limits by
// itself and reports to weir (RLQS). The rate is bounded, as what RLQS costs goes by the time and not by the requests.
//
// Client and servers share the machine. On two noisy cores microseconds, rates and latencies move by tens of per cent
// from one run to the next; only ratios within one run mean anything, and those still move by a tenth or two. That is
// why the report gives medians of interleaved rounds with their spread, and why a missed budget is told but never
// fails the run.
//
// CPU time of another process can be read on Linux only; elsewhere the bench says so and ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// floorArgument as first argument makes this binary the floor server.
const floorArgument = "floor"

func main() {
	if len(os.Args) == 3 && os.Args[1] == floorArgument {
		exitOn(serveFloor(os.Args[2]))
		return
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	exitOn(err)
	debug.SetGCPercent(400) // the client's garbage collector should take little from the servers
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o, os.Stdout, os.Stderr)
	stop()
	exitOn(err)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures as the options say. The table goes to out, a line for each measurement to progress.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return fmt.Errorf("directory for the servers: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a rest in the temporary directory does no harm

	started, err := startServers(ctx, o, chosen, dir)
	defer started.close()
	if err != nil {
		return err
	}
	if o.Envoy {
		return benchEnvoy(ctx, o, dir, started, out, progress)
	}
	m := measurement{options: o, scenarios: chosen, servers: started, progress: progress}
	outcomes, err := m.rounds(ctx)
	if err != nil {
		return err
	}
	return report(out, o, outcomes)
}
