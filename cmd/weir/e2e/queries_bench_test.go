package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
)

// BenchmarkCallsBesideQueries tells how long calls take while nobody asks about the past, and while eight clients ask for
// as much as they get: a year of 300 busy series by the hour. It prints what the process holds at most; nothing is
// asserted. `go test ./cmd/weir/e2e -run none -bench BesideQueries -benchtime 1x`
func BenchmarkCallsBesideQueries(b *testing.B) {
	data := b.TempDir()
	fillYear(b, data, 300)
	for _, bounds := range [][2]string{{"1", "5000000"}, {"2", "5000000"}} {
		b.Run(fmt.Sprintf("concurrency %s samples %s", bounds[0], bounds[1]), func(b *testing.B) {
			for range b.N {
				besideQueries(b, data, "HISTORY_QUERY_CONCURRENCY="+bounds[0], "HISTORY_QUERY_MAX_SAMPLES="+bounds[1])
			}
		})
	}
}

func besideQueries(b *testing.B, data string, settings ...string) {
	w := startWeir(b, tenAnHour, append([]string{"DATA_DIR=" + data, "DRAIN_DELAY=0s"}, settings...)...)
	defer func() {
		w.Terminate(b)
		w.ExitCode(b)
	}()
	c := w.client(b)
	load := func(name string, during func(stop *atomic.Bool)) {
		var stop atomic.Bool
		var crowd sync.WaitGroup
		if during != nil {
			for range 8 {
				crowd.Go(func() { during(&stop) })
			}
		}
		var took []time.Duration
		for tick, begin := time.NewTicker(2*time.Millisecond), time.Now(); time.Since(begin) < 10*time.Second; <-tick.C {
			at := time.Now()
			if _, err := c.hit("basic/1", "ann"); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(at))
		}
		stop.Store(true)
		crowd.Wait()
		slices.Sort(took)
		at := func(share float64) time.Duration { return took[int(share*float64(len(took)-1))] }
		b.Logf("%-16s %5d calls: p50 %v  p90 %v  p99 %v  p99.9 %v; memory at most %s", name, len(took), at(0.5), at(0.9), at(0.99),
			at(0.999), peakMemory(b, w.Pid()))
	}
	load("alone", nil)
	for _, query := range []string{
		`topk(10, sum by (path) (rate(weir_hits_total[1h])))`, // many windows
		`weir_hits_total or weir_hits_peak`,                   // many samples
	} {
		var answered, refused atomic.Int64
		load("beside "+query[:4], func(stop *atomic.Bool) {
			now := time.Now().Unix()
			for !stop.Load() {
				response, err := http.PostForm(w.admin+"/prometheus/api/v1/query_range", url.Values{"query": {query},
					"start": {strconv.FormatInt(now-365*86400, 10)}, "end": {strconv.FormatInt(now, 10)}, "step": {"3600"}})
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if answered.Add(1); response.StatusCode != 200 {
					refused.Add(1)
				}
			}
		})
		b.Logf("                 %d queries, %d of them refused", answered.Load(), refused.Load())
	}
}

// peakMemory returns the most that a process ever held.
func peakMemory(b *testing.B, pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range bytes.Lines(status) {
		if text, is := bytes.CutPrefix(line, []byte("VmHWM:")); is {
			return string(bytes.TrimSpace(text))
		}
	}
	b.Log("the system does not tell")
	return "unknown"
}

// fillYear fills a folder with a year of series that were busy all the time.
func fillYear(b *testing.B, dir string, series int) {
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep()})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for n := range series {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("user/n=", n)}
		batch := history.Batch{Writer: fmt.Sprint("w", n)}
		send := func() {
			batch.Seq, batch.After = batch.Seq+1, batch.Seq
			if _, err := store.Apply(b.Context(), id.Partition(), batch); err != nil {
				b.Fatal(err)
			}
			batch.Increments = nil
		}
		for m, age := now.Unix()/60, int64(0); age < 400*1440; {
			batch.Increments = append(batch.Increments, history.Increment{ID: id, Minute: m - age, Hits: uint64(1 + age%7)})
			if len(batch.Increments) == history.MaxBatch {
				send()
			}
			switch {
			case age < 1440:
				age++
			case age < 7*1440:
				age += 5
			case age < 30*1440:
				age += 60
			default:
				age += 1440
			}
		}
		send()
	}
	if _, err := store.Roll(b.Context(), history.Job{Now: now}); err != nil {
		b.Fatal(err)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}
