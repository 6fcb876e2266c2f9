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
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

func TestDownsampleStopsBetweenSteps(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	store, err := redishistory.Open(redishistory.Config{
		Redis: topology.Config{URL: redistest.Single(t).Addr, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)},
		Step: func(name string) {
			if name == "rolled 1m" { // as by SIGTERM
				end()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, id := range []history.ID{payWithin, payOver, fromBob} {
		historytest.Count(t, store, history.Increment{ID: id, Minute: time.Now().Unix()/60 - 2*1440, Hits: 5})
	}
	var out bytes.Buffer
	err = (&Downsample{}).roll(ctx, store, &out)
	if err == nil || !strings.Contains(err.Error(), "nothing is lost") || codeOf(err) != 2 {
		t.Errorf("a job that was stopped gave %v; its CronJob must see that it did not finish", err)
	}
	if !strings.Contains(out.String(), "moved 1 series: 1 chunks") {
		t.Errorf("a job that was stopped printed %q, want what it had moved by then", &out)
	}
}

func TestDownsampleMovesWhatIsDueInTheRedisOfTheEnvironment(t *testing.T) {
	t.Setenv("REDIS_HISTORY_URL", redistest.Single(t).Addr)
	t.Setenv("REDIS_TIMEOUT", "60s")
	t.Setenv("HISTORY_KEEP_MINUTES", "100h") // while the import moves what is due
	hits := fmt.Sprintf("domain,path,outcome,value,start,width,sum,peak\nshop,user,over,,%d,60,5,\n", time.Now().Unix()/60*60-50*hour)
	if got, err := runHistory(t, "import", csvFile(t, hits)); err != nil {
		t.Fatalf("weir history import prints %q, %v", got, err)
	}
	t.Setenv("HISTORY_KEEP_MINUTES", "")
	took := regexp.MustCompile(`in [0-9.]+(ms|s|m)+,`)
	const moved = "Looked at 256 of 256 partitions in 1s, and moved %d series: %d chunks with %d points. 0 hits have expired.\n"
	for i, want := range []string{"Looked at 256 of 256 partitions: 1 series are due.\n", fmt.Sprintf(moved, 1, 1, 1), fmt.Sprintf(moved, 0, 0, 0),
		"Looked at 256 of 256 partitions: 0 series are due.\n"} {
		var out bytes.Buffer
		err := (&Downsample{DryRun: i%3 == 0}).Run(t.Context(), terminal.Output{Out: &out, Err: io.Discard})
		if got := took.ReplaceAllString(out.String(), "in 1s,"); err != nil || got != want {
			t.Errorf("weir downsample prints %q (%v), want %q", got, err, want)
		}
	}
}
