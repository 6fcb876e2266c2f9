package yaml

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shape is a file of many rules: what each is like, # standing for its number.
type shape struct{ name, rule string }

var many = []shape{
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
	{"patterns", `
  - key: path
    value: /p#/*
    rate_limit:
      unit: minute
      requests_per_unit: #`},
}

func (s shape) file(n int) []byte {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:")
	for i := range n {
		b.WriteString(strings.ReplaceAll(s.rule, "#", strconv.Itoa(i)))
	}
	return []byte(b.String() + "\n")
}

func TestTenThousandRulesTakeNoTimeToSpeakOf(t *testing.T) {
	for _, shape := range many {
		t.Run(shape.name, func(t *testing.T) {
			file := File{"shop.yaml", shape.file(10_000)}
			began := time.Now()
			c, problems := Parse([]File{file}, Options{})
			took := time.Since(began)
			if len(problems) > 0 || len(c.Rules()) != 10_000 {
				t.Fatalf("got %v", problems)
			}
			t.Logf("%v", took)
			if took > time.Minute { // 0.3 s is usual; only something quadratic comes near
				t.Errorf("10,000 rules took %v to read", took)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, shape := range many {
		file := File{"shop.yaml", shape.file(10_000)}
		b.Run(shape.name, func(b *testing.B) {
			b.SetBytes(int64(len(file.Data)))
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				Parse([]File{file}, Options{})
			}
			b.ReportMetric(float64((processorTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkRenewTenFiles changes one of ten files of 1,000 rules each.
func BenchmarkRenewTenFiles(b *testing.B) {
	for _, shape := range many {
		var files []File
		for i := range 10 {
			text := strings.Replace(string(shape.file(1000)), "domain: shop", fmt.Sprintf("domain: shop%d", i), 1)
			files = append(files, File{fmt.Sprintf("shop%d.yaml", i), []byte(text)})
		}
		held := (&Held{}).Renew(files, nil).Held
		files[4].Data = append(files[4].Data, "  - key: more\n"...)
		b.Run(shape.name, func(b *testing.B) { benchmarkRenew(b, held, files) })
	}
}

func benchmarkRenew(b *testing.B, held *Held, files []File) {
	b.ReportAllocs()
	began := processorTime(b)
	for b.Loop() {
		if r := held.Renew(files, nil); r.Config == nil {
			b.Fatal(r.Problems)
		}
	}
	b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkRenew has 10,000 rules beside a file that is bad, or has changed.
func BenchmarkRenew(b *testing.B) {
	for _, shape := range many {
		good := File{"shop.yaml", shape.file(10_000)}
		held := (&Held{}).Renew([]File{good, {"other.yaml", []byte(limited("other", 1))}}, nil).Held
		for name, text := range map[string]string{"bad": wrong("bad"), "changed": limited("other", 2)} {
			files := []File{good, {"other.yaml", []byte(text)}}
			b.Run(shape.name+"/beside a "+name+" file", func(b *testing.B) { benchmarkRenew(b, held, files) })
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
