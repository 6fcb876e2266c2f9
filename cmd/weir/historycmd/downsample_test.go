package historycmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// dueHistory holds hits that are due for each tier, none of which has been moved, as time.Now has it. In a file a job can
// be interrupted.
func dueHistory(t *testing.T) *filehistory.Store {
	t.Helper()
	store, err := filehistory.InMemory(filehistory.Config{Keep: history.DefaultKeep()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	now := time.Now()
	for _, id := range []history.ID{payWithin, payOver, fromBob} {
		for day := range int64(100) {
			historytest.Count(t, store, history.Increment{ID: id, Minute: now.Unix()/60 - day*1440, Hits: 5})
		}
	}
	return store
}

var tookTime = regexp.MustCompile(`in [0-9.]+(ms|s|m)+;`)

// rollOnce runs the job as the command does, where nobody looks, and returns what it prints and logs.
func rollOnce(ctx context.Context, store history.Store, c Downsample) (printed, logged string, err error) {
	var out, log bytes.Buffer
	show := progress(slog.New(slog.NewTextHandler(&log, nil)))
	err = c.roll(ctx, store, &out, show)
	return tookTime.ReplaceAllString(out.String(), "in 1s;"), log.String(), err
}

func TestDownsampleReportsWhatItMoved(t *testing.T) {
	store := dueHistory(t)
	dry, _, err := rollOnce(t.Context(), store, Downsample{Once: true, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	printed, logged, err := rollOnce(t.Context(), store, Downsample{Once: true})
	if err != nil || logged != "" {
		t.Fatalf("the job gave %v and logged %q; a short one has nothing to log", err, logged)
	}
	if want := strings.ReplaceAll(printed, "; moved", "; would move"); dry != want {
		t.Errorf("the dry run printed\n%s\nthe job\n%s\nA dry run must say what the job does.", dry, printed)
	}
	if !strings.HasPrefix(printed, "Looked at 256 of 256 partitions in 1s; moved 3 series.\n  1m to 5m    ") {
		t.Errorf("the job printed\n%s", printed)
	}
	const idle = "Looked at 256 of 256 partitions in 1s; moved 0 series.\n"
	if printed, _, err = rollOnce(t.Context(), store, Downsample{Once: true}); printed != idle || err != nil {
		t.Errorf("a second run printed %q (%v), want %q", printed, err, idle)
	}
}

// interrupted is a store whose job is told to end after its first steps, as by SIGTERM.
type interrupted struct {
	*filehistory.Store
	end context.CancelFunc
}

func (s interrupted) Roll(ctx context.Context, job history.Job) (history.RollResult, error) {
	show := job.Progress
	job.Progress = func(done history.RollResult) {
		show(done)
		if chunks, _ := done.Sum(); chunks > 0 {
			s.end()
		}
	}
	return s.Store.Roll(ctx, job)
}

func TestDownsampleStopsBetweenSteps(t *testing.T) {
	store := dueHistory(t)
	ctx, end := context.WithCancel(t.Context())
	printed, _, err := rollOnce(ctx, interrupted{store, end}, Downsample{Once: true})
	if err == nil || !strings.Contains(err.Error(), "nothing is lost") || codeOf(err) != 2 {
		t.Errorf("a job that was stopped gave %v; its CronJob must see that it did not finish", err)
	}
	if !strings.Contains(printed, "moved 1 series.\n  1m to 5m") {
		t.Errorf("a job that was stopped printed %q, want what it had moved by then", printed)
	}
}

func TestDownsampleOpensTheRedisOfTheEnvironment(t *testing.T) {
	t.Setenv("REDIS_HISTORY_URL", redistest.Single(t).Addr)
	t.Setenv("REDIS_TIMEOUT", "60s")
	t.Setenv("HISTORY_KEEP_MINUTES", "100h") // while the import moves what is due
	hits := fmt.Sprintf("domain,path,outcome,value,start,width,sum,peak\nshop,user,over,,%d,60,5,\n", time.Now().Unix()/60*60-50*hour)
	if got, err := runHistory(t, "import", csvFile(t, hits)); err != nil {
		t.Fatalf("weir history import prints %q, %v", got, err)
	}
	t.Setenv("HISTORY_KEEP_MINUTES", "")
	for i, want := range []string{"; would move 1 series.\n  1m to 5m", "; moved 1 series.\n  1m to 5m", "; moved 0 series.\n"} {
		var out bytes.Buffer
		err := (&Downsample{Once: true, DryRun: i == 0}).Run(t.Context(), terminal.Output{Out: &out, Err: io.Discard})
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("weir downsample prints %q (%v), want %q", out.String(), err, want)
		}
	}
}
