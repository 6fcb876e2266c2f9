package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	Rounds                    int
	Measure, HalfLoad, WarmUp time.Duration // HalfLoad 0 leaves the paced load out
	InFlight                  int           // on each connection
	Only                      []string      // names of scenarios; none: all
	Binary                    string        // "": built from this module
	Env                       []string      // NAME=VALUE, for weir
	Envoy                     bool          // through a real Envoy, instead of the scenarios
}

// parseOptions reads the command line and refuses what cannot be measured. What is wrong, and the help, also go to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&o.Rounds, "rounds", 5, "rounds; each measures the floor and every scenario once")
	f.DurationVar(&o.Measure, "measure", 3*time.Second, "how long to measure at full load")
	f.DurationVar(&o.HalfLoad, "half-load", 2*time.Second, "how long to measure at half load; 0 leaves it out")
	f.DurationVar(&o.WarmUp, "warm-up", 500*time.Millisecond, "load before each measurement that is not counted")
	f.IntVar(&o.InFlight, "in-flight", 16, "requests in flight on each connection")
	f.StringVar(&o.Binary, "binary", "", "the weir `file` to measure; by default it is built from this module")
	f.Func("only", "only the floor and these `scenarios`, by commas: "+scenarioNames(), func(names string) error {
		o.Only = append(o.Only, strings.Split(names, ",")...)
		return nil
	})
	f.Func("env", "a `NAME=VALUE` for the environment of weir; may be repeated", func(setting string) error {
		o.Env = append(o.Env, setting)
		return nil
	})
	f.BoolFunc("envoy", "send requests through a real Envoy, by RLS and by RLQS, instead of the scenarios; --measure 10s", func(string) error {
		o.Envoy, o.Measure, o.Only = true, 10*time.Second, []string{"sliding-minute"} // two reports, and the weir of that scenario
		return nil
	})
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("%q is not expected: everything is said with flags", f.Arg(0))
	}
	return o, o.validate()
}

// validate refuses options with which nothing can be measured.
func (o options) validate() error {
	if o.Rounds < 1 || o.InFlight < 1 {
		return fmt.Errorf("--rounds %d, --in-flight %d: both must be at least 1", o.Rounds, o.InFlight)
	}
	if o.Measure <= 0 {
		return fmt.Errorf("--measure is %s: it must be longer than 0", o.Measure)
	}
	if o.HalfLoad < 0 || o.WarmUp < 0 {
		return fmt.Errorf("--half-load %s, --warm-up %s: neither may be negative", o.HalfLoad, o.WarmUp)
	}
	return nil
}
