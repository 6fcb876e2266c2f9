package yaml

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shape is a file of many rules: what each is like, # standing for its number.
type shape struct{ name, rule string }

var many = []shape{
	{"patterns", `
  - key: path
    value: /p#/*
    rate_limit:
      unit: minute
      requests_per_unit: #`},
	{"values", `
  - key: user
    value: u#
    rate_limit:
      unit: minute
      requests_per_unit: #`},
	{"three levels", `
  - key: user
    value: u#
    descriptors:
      - key: path
        value: /pay
        descriptors:
          - key: method
            rate_limit:
              unit: minute
              requests_per_unit: #`},
	{"three limits", `
  - key: user
    value: u#
    metadata:
      tier: gold
      number: #
    rate_limits:
      - name: u#-second
        unit: second
        requests_per_unit: 10
      - name: u#-minute
        unit: minute
        requests_per_unit: 10
      - name: u#-hour
        unit: hour
        requests_per_unit: 10`},
}

func (s shape) file(n int) []byte {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:")
	for i := range n {
		b.WriteString(strings.ReplaceAll(s.rule, "#", strconv.Itoa(i)))
	}
	return []byte(b.String() + "\n")
}

// Something quadratic would outlast the time that go test gives to all tests.
func TestTenThousandRulesAreRead(t *testing.T) {
	for _, shape := range many[:walks(1, len(many))] {
		c, problems := Parse([]File{{"shop.yaml", shape.file(10_000)}}, Options{})
		if len(problems) > 0 || len(c.Rules()) != 10_000 {
			t.Errorf("%s: got %v", shape.name, problems)
		}
	}
}

// BenchmarkRenew reads 10,000 rules: for the first time, and beside another file that is bad, or has changed.
func BenchmarkRenew(b *testing.B) {
	for _, shape := range many {
		good, other := File{"shop.yaml", shape.file(10_000)}, File{"other.yaml", []byte(limited("other", 1))}
		held := (&Held{}).Renew([]File{good, other}, nil).Held
		for name, next := range map[string]struct {
			before *Held
			other  string
		}{"first": {&Held{}, limited("other", 1)}, "beside a bad file": {held, wrong("bad")},
			"beside a changed file": {held, limited("other", 2)}} {
			files := []File{good, {"other.yaml", []byte(next.other)}}
			b.Run(shape.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				began := processorTime(b)
				for b.Loop() {
					if r := next.before.Renew(files, nil); r.Config == nil {
						b.Fatal(r.Problems)
					}
				}
				b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// processorTime is what the process has used, the collector included: on a busy machine it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
