package limit_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// BenchmarkReload puts a file of 100,000 rules in force, none of which was in the file before. It tells what a reload costs
// in CPU, and after the last the resident memory, and what of it is held: run it with -benchtime=12x.
func BenchmarkReload(b *testing.B) {
	const rules = 100_000
	l := limit.New(nil, limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(hits.DefaultValues))
	file := func(i int) []byte {
		var text strings.Builder
		text.WriteString("domain: shop\ndescriptors:")
		for rule := range rules {
			fmt.Fprintf(&text, "\n  - key: user\n    value: u%d-%d\n    rate_limit:\n      unit: minute\n      requests_per_unit: 10", i, rule)
		}
		return []byte(text.String())
	}
	var used time.Duration
	n := 0
	for b.Loop() {
		n++
		data := file(n)
		began := processorTime(b)
		c, problems := yaml.Parse([]yaml.File{{Name: "shop.yaml", Data: data}}, yaml.Options{})
		if err := problems.Err(); err != nil {
			b.Fatal(err)
		}
		parsed := processorTime(b)
		l.Apply(c)
		if n == 1 {
			b.Logf("the first: %v to read, %v to apply; %d MiB", parsed-began, processorTime(b)-parsed, resident())
		}
		used += processorTime(b) - began
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(resident()), "MiB-resident")
	var held runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&held)
	b.ReportMetric(float64(held.HeapAlloc>>20), "MiB-held")
	runtime.KeepAlive(l)
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// resident returns the process's resident memory in MiB, 0 where the system does not tell.
func resident() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	return kib >> 10
}
