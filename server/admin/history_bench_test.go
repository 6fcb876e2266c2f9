package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/curves"
)

// year is a year of a number of series that are hit every minute.
func year(b *testing.B, series int) *kept {
	k := newKept(b, noon)
	for i := range series {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("rule", i)}
		var hits []hit
		for age := time.Duration(0); age < 365*24*time.Hour; {
			hits = append(hits, hit{id, noon.Add(-age).Unix(), 500})
			switch { // what is old is rolled: a hit for each bucket that it leaves is enough
			case age < 26*time.Hour:
				age += time.Minute
			case age < 9*24*time.Hour:
				age += 5 * time.Minute
			case age < 38*24*time.Hour:
				age += time.Hour
			default:
				age += 24 * time.Hour
			}
		}
		k.add(b, hits...)
		k.roll(b)
	}
	return k
}

func BenchmarkHistoryOfAYear(b *testing.B) {
	for _, series := range []int{1, 100} {
		k := year(b, series)
		for _, points := range []int{0, 500} {
			b.Run(fmt.Sprintf("series=%d/points=%d", series, points), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					a, err := k.Show(b.Context(), curves.Question{From: "-365d", Points: points})
					if err = errors.Join(err, a.WriteJSON(io.Discard)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSlowReaders has 20 clients ask for large answers at once, who do not read them for two seconds. It tells the
// most resident memory, of which a process without questions has 17 MiB.
func BenchmarkSlowReaders(b *testing.B) {
	k := newKept(b, noon)
	for i := range 115 {
		var hits []hit
		for minute := range 4900 {
			hits = append(hits, hit{history.ID{Domain: "shop", Path: fmt.Sprint("rule", i)}, noon.Unix() - 60*int64(minute), 500})
		}
		k.add(b, hits...)
	}
	port := httptest.NewServer(Handler(Parts{Readiness: ready{}, Metrics: http.NotFoundHandler(), History: k.History}))
	defer port.Close()
	for _, points := range []int{2000, 10_000} {
		b.Run(fmt.Sprint("points=", points), func(b *testing.B) {
			debug.FreeOSMemory()
			most := 0
			for b.Loop() {
				var readers sync.WaitGroup
				for range 20 {
					readers.Go(func() {
						response, err := http.Get(fmt.Sprintf("%s/api/v1/history?from=-8600m&points=%d", port.URL, points))
						if err != nil {
							b.Error(err)
							return
						}
						defer response.Body.Close()
						time.Sleep(2 * time.Second)
						_, _ = io.Copy(io.Discard, response.Body)
					})
				}
				over := make(chan struct{})
				go func() { readers.Wait(); close(over) }()
				for done := false; !done; {
					most = max(most, resident())
					select {
					case <-over:
						done = true
					case <-time.After(time.Millisecond):
					}
				}
			}
			b.ReportMetric(float64(most), "MiB-resident")
		})
	}
}

// resident returns the process's resident memory in MiB, 0 where the system does not tell.
func resident() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	return kib >> 10
}
