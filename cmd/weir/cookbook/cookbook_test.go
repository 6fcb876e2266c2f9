package cookbook_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

var write = flag.Bool("write", false, "put what really becomes of the requests into the cookbook, for its author to judge")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(process.RunWith(m, &weirBinary, &envoyBinary))
}

// TestEveryRecipeDoesWhatItShows runs all recipes of the cookbook through one Envoy and one weir.
func TestEveryRecipeDoesWhatItShows(t *testing.T) {
	process.Weir(t) // so that go test sees what its result hangs on
	recipes := readRecipes(t)
	if len(recipes) < 15 {
		t.Fatalf("found only %d recipes: this test looks in the wrong place", len(recipes))
	}
	var names []string
	config := t.TempDir()
	for _, r := range recipes {
		names = append(names, r.name)
		if err := os.WriteFile(filepath.Join(config, r.name+".yaml"), []byte(r.descriptorFile(r.name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	behind := upstream()
	t.Cleanup(behind.Close)
	recorder, port := startRecorder(t, startWeir(t, config), names)
	accessLog := filepath.Join(t.TempDir(), "access.log") // of the one recipe that shows it
	ports := startEnvoy(t, recipes, port, behind.Listener.Addr().(*net.TCPAddr).Port, accessLog)
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			if r.file == "" || len(r.envoy) == 0 || len(r.transcript) == 0 {
				t.Fatalf("%s:%d: a recipe has blocks for Envoy, a descriptor file and a transcript: what is not shown is not tested",
					document, r.line)
			}
			r.wantCheck(t)
			for _, want := range r.transcript {
				got := r.play(t, recorder, ports[r.name], want)
				if *write {
					rewrite(t, want, got)
				} else if got != want {
					t.Errorf("the recipe of line %d shows\n%s\nbut this becomes of its requests:\n%s", r.line, want, got)
				}
			}
			if r.log != "" {
				r.wantLog(t, accessLog)
			}
			if left := len(recorder.asked[r.name]); left > 0 {
				t.Errorf("Envoy asked %d times more than the transcript shows", left)
			}
		})
	}
}

// wantLog waits for the access log that the recipe shows. How long a caller should wait depends on the clock: it is dots.
func (r *recipe) wantLog(t *testing.T, file string) {
	t.Helper()
	var got string
	for began := time.Now(); time.Since(began) < process.Hang; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		got = regexp.MustCompile(`retry_after=[0-9]+`).ReplaceAllString(string(text), "retry_after=…")
		if strings.Count(got, "\n") >= strings.Count(r.log, "\n") {
			break
		}
	}
	if *write {
		rewrite(t, r.log, got)
	} else if got != r.log {
		t.Errorf("the recipe of line %d shows the access log\n%s\nbut Envoy writes\n%s", r.line, r.log, got)
	}
}

// play sends the requests of a transcript, and returns it as it really is.
func (r *recipe) play(t *testing.T, recorder *recorder, port int, transcript string) string {
	t.Helper()
	var lines []line
	for text := range strings.Lines(transcript) {
		q, err := readQuestion(text)
		if err != nil {
			t.Fatal(err)
		}
		l, err := recorder.ask(r.name, port, q)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return writeLines(lines)
}

// rewrite replaces a transcript in the document.
func rewrite(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err == nil {
		err = os.WriteFile(document, []byte(strings.Replace(string(text), from, to, 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantCheck runs weir check, as who takes over a recipe would.
func (r *recipe) wantCheck(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(r.descriptorFile("shop")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(weirBinary, "check", dir, "--strict").CombinedOutput(); err != nil {
		t.Errorf("weir check --strict: %v\n%s", err, out)
	}
}

// startWeir serves a configuration, and returns the port of its gRPC.
func startWeir(t *testing.T, config string) int {
	t.Helper()
	port, debug := process.Port(t), process.Port(t)
	p := process.Start(t, "weir", []string{
		"GRPC_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", port), "HOST=127.0.0.1", fmt.Sprint("PORT=", process.Port(t)),
		"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", debug), "DATA_DIR=" + t.TempDir(),
	}, weirBinary, "serve", "--config", config)
	p.AwaitReady(t, func() error {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", debug))
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("weir is not ready: %s", answer.Status)
		}
		return nil
	})
	return port
}
