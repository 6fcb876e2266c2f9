package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func TestHitsAreSeenInTheHistoryAndProvenExact(t *testing.T) {
	t.Parallel()
	w := startWeir(t, `
- key: plan
  value: basic/1
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 10 }
`, "HISTORY_FLUSH_INTERVAL=1s")
	c := w.client(t)
	for range 25 {
		if _, err := c.hit("basic/1", "ann"); err != nil {
			t.Fatalf("asking weir: %v", err)
		}
	}
	port := strings.TrimPrefix(w.admin, "http://")
	history := func(args ...string) (string, int) {
		t.Helper()
		args = append(append([]string{"history"}, args...), "--admin", port)
		p := process.Start(t, fmt.Sprint("weir ", args), nil, weirBinary, args...)
		code := p.ExitCode(t)
		return p.Log.String(), code
	}
	eventually(t, "hits are in the history one flush after they came", func() error {
		printed, code := history("show", "--json", "--path", "plan=basic/1/user")
		var a struct {
			Series []struct {
				Path, Outcome string
				Total         int
			}
		}
		if err := json.Unmarshal([]byte(printed), &a); err != nil || code != 0 {
			return fmt.Errorf("exit code %d, printed %s", code, printed)
		}
		totals := make(map[string]int)
		for _, s := range a.Series {
			totals[s.Path+" "+s.Outcome] = s.Total
		}
		if totals["plan=basic%2F1/user within"] != 10 || totals["plan=basic%2F1/user over"] != 15 {
			return fmt.Errorf("the totals are %v, want 10 within and 15 over", totals)
		}
		return nil
	})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"show", "--path", "plan=basic/1/user", "--outcome", "over"}, 0, "total 15   lifetime 15"},
		{[]string{"top", "--by", "over"}, 0, "shop plan=basic/1/user"},
		{[]string{"verify"}, 0, "each holds exactly what it ever counted"},
		{[]string{"show", "--domain", "nobody"}, 2, "there is no history of domain nobody; there is of shop"},
	} {
		if printed, code := history(c.args...); code != c.code || !strings.Contains(printed, c.want) {
			t.Errorf("weir history %v ended with %d, want %d, and printed\n%s\nwant %q in it", c.args, code, c.code, printed, c.want)
		}
	}
	p := process.Start(t, "weir downsample", nil, weirBinary, "downsample", "--once")
	if code := p.ExitCode(t); code != 2 || !strings.Contains(p.Log.String(), "belongs to its weir serve") {
		t.Errorf("weir downsample beside an embedded history ended with %d and printed\n%s", code, p.Log.String())
	}
}
