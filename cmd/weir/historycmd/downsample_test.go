package historycmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

func TestDownsampleMovesDueBucketsInRedis(t *testing.T) {
	t.Setenv("REDIS_HISTORY_URL", redistest.Single(t).Addr)
	t.Setenv("REDIS_TIMEOUT", "60s")
	t.Setenv("HISTORY_KEEP_MINUTES", "100h") // while the import moves what is due
	hits := fmt.Sprintf("domain,path,outcome,value,start,width,sum,peak\nshop,user,over,,%d,60,5,\n", time.Now().Unix()/60*60-50*history.Hour)
	if got, err := runHistory(t, "import", csvFile(t, hits)); err != nil {
		t.Fatalf("weir history import prints %q, %v", got, err)
	}
	t.Setenv("HISTORY_KEEP_MINUTES", "")
	took := regexp.MustCompile(`in [0-9.]+(ms|s|m)+,`)
	const moved = "Looked at 256 of 256 partitions in 1s, and moved %d series: %d chunks with %d points. 0 hits have expired.\n"
	stopped, stop := context.WithCancel(t.Context())
	stop() // as by SIGTERM
	var out bytes.Buffer
	err := (&Downsample{}).Run(stopped, terminal.Output{Out: &out, Err: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "nothing is lost") || codeOf(err) != 2 || !strings.Contains(out.String(), "Looked at 0 of 256") {
		t.Errorf("a job that was stopped printed %q and gave %v; its CronJob must see that it did not finish", &out, err)
	}
	for i, want := range []string{"Looked at 256 of 256 partitions: 1 series are due.\n", fmt.Sprintf(moved, 1, 1, 1), fmt.Sprintf(moved, 0, 0, 0),
		"Looked at 256 of 256 partitions: 0 series are due.\n"} {
		var out bytes.Buffer
		err := (&Downsample{DryRun: i%3 == 0}).Run(t.Context(), terminal.Output{Out: &out, Err: io.Discard})
		if got := took.ReplaceAllString(out.String(), "in 1s,"); err != nil || got != want {
			t.Errorf("weir downsample prints %q (%v), want %q", got, err, want)
		}
	}
}
