package main

import (
	"strings"
	"testing"
)

func TestIncrBysAreWholePipelinesOverAllKeys(t *testing.T) {
	batches := incrBys(40)
	if len(batches) != 2 {
		t.Fatalf("%d pipelines for 40 keys, want 2 of %d each", len(batches), pipelined)
	}
	all := string(batches[0]) + string(batches[1])
	if n := strings.Count(all, "INCRBY"); n != 2*pipelined {
		t.Errorf("%d INCRBYs, want %d: the cost of one is that of whole pipelines", n, 2*pipelined)
	}
	for _, want := range []string{
		"*3\r\n$6\r\nINCRBY\r\n$18\r\nbench:incrby:00000\r\n$1\r\n1\r\n", "\r\nbench:incrby:00039\r\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the pipelines lack %q", want)
		}
	}
	if strings.Contains(all, "00040") {
		t.Error("there are more keys than asked for: they should be as many as the scenarios have")
	}
}

func TestScenariosOnRedisCanBeLeftOut(t *testing.T) {
	for _, o := range []options{{NoRedis: true}, {Addr: "127.0.0.1:8081"}} {
		chosen, err := o.chosen()
		if err != nil || len(chosen) == 0 {
			t.Fatalf("%+v: %d scenarios, error %v", o, len(chosen), err)
		}
		for _, s := range chosen {
			if s.Redis || s.History != "" {
				t.Errorf("%+v: %s is measured, want none on Redis", o, s.Name)
			}
		}
		o.Only = []string{"redis-sliding-day"}
		if _, err := o.chosen(); err == nil || !strings.Contains(err.Error(), "redis-sliding-day") {
			t.Errorf("%+v: error %v, want one that says why the scenario is not measured", o, err)
		}
	}
}
