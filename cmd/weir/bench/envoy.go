package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

const (
	// quotaBudget is what a request may cost weir, in floors, where Envoy limits by itself.
	quotaBudget = 0.02
	// envoyRate is how many requests a second Envoy is sent at most.
	envoyRate = 10_000
	// envoyConnections are kept alive, with envoyBatch requests on each at a time.
	envoyConnections, envoyBatch = 16, 4
)

//go:embed envoy.yaml.tmpl
var envoyBootstrap string

// way is a listener of Envoy that limits by one server.
type way struct {
	Name, Title, Cluster string
	Quota                bool
	Port                 int
	server               *server
	micros, floors, rate []float64 // of each round
}

// benchEnvoy measures what a request through a real Envoy costs a floor server, weir by RLS, and weir by RLQS.
func benchEnvoy(ctx context.Context, o options, dir string, s *servers, out, progress io.Writer) error {
	ways := []*way{
		{Name: "floor", Title: "floor", Cluster: "floor", server: s.at[onFloor]},
		{Name: "rls", Title: "RLS, memory, sliding window, minute", Cluster: "weir", server: s.at[inMemory]},
		{Name: "rlqs", Title: "RLQS, likewise", Cluster: "weir", Quota: true, server: s.at[inMemory]},
	}
	envoy, err := startEnvoy(ctx, dir, ways)
	if err != nil {
		return err
	}
	defer envoy.close()
	for round := range o.Rounds {
		for _, w := range ways {
			if err := w.measure(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			n := len(w.micros) - 1
			w.floors = append(w.floors, w.micros[n]/ways[0].micros[n])
			_, _ = fmt.Fprintf(progress, "round %d of %d  %-5s %8.2f µs %7.4f floors at %.0f/s\n", round+1, o.Rounds, w.Name, w.micros[n], w.floors[n], w.rate[n])
		}
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(columns, "\nserver CPU of a request through Envoy\tµs\tfloors\tmin..max\trequests/s\t  budget\n")
	for _, w := range ways {
		floors, budget := spreadOf(w.floors), 0.0
		if w.Quota {
			budget = quotaBudget
		}
		_, _ = fmt.Fprintf(columns, "%s\t%.2f\t%.4f\t%.4f..%.4f\t%.0f\t  %s\n", w.Title, spreadOf(w.micros).Median, floors.Median,
			floors.Min, floors.Max, spreadOf(w.rate).Median, budgetVerdict(budget, floors.Median))
	}
	_, _ = fmt.Fprintf(columns, "\nMedians of %d interleaved rounds of %s, by at most %d requests a second of one user on %d connections.\n",
		o.Rounds, o.Measure, envoyRate, envoyConnections)
	return columns.Flush()
}

// startEnvoy runs an Envoy with the ways as listeners, until it is ready.
func startEnvoy(ctx context.Context, dir string, ways []*way) (*server, error) {
	e, path := &server{}, ""
	fail := func(err error) (*server, error) {
		e.close()
		return nil, fmt.Errorf("envoy: %w", err)
	}
	path, err := process.FindTool("envoy")
	if err != nil {
		return fail(err)
	}
	hold := func() (port int) {
		held, release, failed := process.HoldPort()
		if err = cmp.Or(err, failed); failed == nil {
			e.release = append(e.release, release)
		}
		return held
	}
	data := struct {
		Admin   int
		Ways    []*way
		Servers map[string]int
	}{hold(), ways, make(map[string]int)}
	for _, w := range ways {
		w.Port, data.Servers[w.Cluster] = hold(), w.server.port
	}
	var bootstrap bytes.Buffer
	err = cmp.Or(err, template.Must(template.New("").Parse(envoyBootstrap)).Execute(&bootstrap, data))
	file := filepath.Join(dir, "envoy.yaml")
	if err = cmp.Or(err, os.WriteFile(file, bootstrap.Bytes(), 0o600)); err != nil {
		return fail(err)
	}
	e.process, err = process.Launch("envoy", exec.Command(path, "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"),
		new(process.Output), "")
	if err != nil {
		return fail(err)
	}
	err = e.process.Await(func() error {
		_, err := fetch(ctx, fmt.Sprintf("http://127.0.0.1:%d/ready", data.Admin))
		return err
	})
	if err != nil {
		return fail(err)
	}
	return e, nil
}

// measure sends requests, and divides what the server used meanwhile by their number.
func (w *way) measure(ctx context.Context, o options) error {
	if _, err := w.load(ctx, o.WarmUp); err != nil {
		return err
	}
	if w.Quota {
		if err := w.server.process.Await(func() error { return w.assigned(ctx) }); err != nil {
			return err
		}
	}
	before, err := w.server.cpu()
	if err != nil {
		return err
	}
	begin := time.Now()
	answered, err := w.load(ctx, o.Measure)
	took := time.Since(begin)
	after, failed := w.server.cpu()
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	w.micros = append(w.micros, float64((after-before).Nanoseconds())/1e3/float64(answered))
	w.rate = append(w.rate, float64(answered)/took.Seconds())
	return nil
}

// assigned complains unless weir has assigned a share to the Envoy.
func (w *way) assigned(ctx context.Context) error {
	text, err := fetch(ctx, fmt.Sprintf("http://127.0.0.1:%d/api/v1/quota", w.server.debug))
	if err != nil {
		return err
	}
	var a struct{ Buckets []struct{ Assignment string } }
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	if len(a.Buckets) != 1 || a.Buckets[0].Assignment != "share" {
		return fmt.Errorf("its buckets are %s, want one with a share", text)
	}
	return nil
}

// load sends requests for so long, and wants all to pass.
func (w *way) load(ctx context.Context, long time.Duration) (answered int, err error) {
	const pause = time.Second * envoyConnections * envoyBatch / envoyRate
	var mu sync.Mutex
	var running sync.WaitGroup
	begin := time.Now()
	for i := range envoyConnections {
		running.Go(func() {
			n, due := 0, begin.Add(pause*time.Duration(i)/envoyConnections)
			conn, failed := net.Dial("tcp", fmt.Sprint("127.0.0.1:", w.Port))
			if failed == nil {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for failed == nil && ctx.Err() == nil && (n == 0 || time.Since(begin) < long) {
					time.Sleep(time.Until(due))
					failed, n, due = exchange(conn, in), n+envoyBatch, due.Add(pause)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answered, err = answered+n, cmp.Or(err, failed)
		})
	}
	running.Wait()
	return answered, cmp.Or(err, ctx.Err())
}

var requests = bytes.Repeat([]byte("GET / HTTP/1.1\r\nhost: bench\r\nx-user: ann\r\n\r\n"), envoyBatch)

// exchange sends some requests, and reads their answers, which have no body.
func exchange(to io.Writer, in *bufio.Reader) error {
	if _, err := to.Write(requests); err != nil {
		return err
	}
	for range envoyBatch {
		for first := true; ; first = false {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
				return fmt.Errorf("answered %q", line)
			}
			if len(line) == len("\r\n") {
				break
			}
		}
	}
	return nil
}

// fetch returns what is at a URL.
func fetch(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, answer.Status)
	}
	return text, err
}
