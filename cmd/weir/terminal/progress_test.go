package terminal

import (
	"bytes"
	"testing"
	"time"
)

func TestProgressTellsRateAndTimeLeft(t *testing.T) {
	for _, c := range []struct {
		unit        string
		done, total int64
		took        time.Duration
		want        string
	}{
		{"rows", 40_000, 65_000, 2 * time.Second, "40,000 of 65,000 rows, 20,000/s, 2s left"},
		{"rows", 65_000, 65_000, 4 * time.Second, "65,000 of 65,000 rows, 16,250/s"},
		{"rows", 300, 0, 3 * time.Second, "300 rows, 100/s"},
		{"rows", 0, 65_000, time.Second, "0 of 65,000 rows, 0/s"},
		{"days", 1, 400, 100 * time.Second, "1 of 400 days, 0/s, 11h 5m left"},
		{"", 0, 0, 63 * time.Second, "waiting for 1m 3s"},
	} {
		p := Progress{unit: c.unit}
		p.Done.Store(c.done)
		p.Total.Store(c.total)
		if got := p.line(c.took); got != c.want {
			t.Errorf("%d of %d after %v is told as %q, want %q", c.done, c.total, c.took, got, c.want)
		}
	}
}

func TestProgressIsSilentWithoutATerminal(t *testing.T) {
	for _, asked := range []bool{false, true} {
		var out bytes.Buffer
		_, stop := (&ProgressFlag{Progress: asked}).Start(&out, "rows")
		stop()
		if told := out.Len() > 0; told != asked {
			t.Errorf("with --progress=%v, what is no terminal is told %q", asked, &out)
		}
	}
}
