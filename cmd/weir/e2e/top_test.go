package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/server/ranking"
)

// Three users under a limit of 10 an hour: ann is over, bob is near, cara is not.
func TestAnOperatorSeesWhoIsOverNow(t *testing.T) {
	t.Parallel()
	const rules = `
- key: plan
  value: basic/1
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 10 }
`
	for name, settings := range map[string]func(t *testing.T) []string{
		"memory": func(*testing.T) []string { return nil },
		"redis":  func(t *testing.T) []string { return []string{"REDIS_URL=" + redistest.Single(t).Addr} },
		"cluster": func(t *testing.T) []string {
			return []string{"REDIS_TYPE=cluster", "REDIS_URL=" + strings.Join(redistest.Cluster(t).Addrs(), ",")}
		},
		"keys of ratelimit": func(t *testing.T) []string {
			return []string{"REDIS_URL=" + redistest.Single(t).Addr, "KEY_FORMAT=ratelimit", "ALGORITHM=fixed_window"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, rules, append(settings(t), "ON_BACKEND_FAILURE=error", "HISTORY=false", patientRedis)...)
			c := w.client(t)
			eventually(t, "it counts", func() error {
				_, err := c.look("basic/1", "ann")
				return err
			})
			for user, hits := range map[string]int{"ann": 12, "bob": 8, "cara": 1} {
				for range hits {
					if _, err := c.hit("basic/1", user); err != nil {
						t.Fatalf("asking weir: %v", err)
					}
				}
			}
			checkTop(t, w)
		})
	}
}

func checkTop(t *testing.T, w *weir) {
	top := func(args ...string) (string, int) {
		t.Helper()
		args = append([]string{"counters", "top", "--admin", strings.TrimPrefix(w.admin, "http://")}, args...)
		p := process.Start(t, fmt.Sprint("weir ", args), nil, weirBinary, args...)
		code := p.ExitCode(t)
		return p.Log.String(), code
	}
	printed, code := top("--domain", "shop", "--path", "plan=basic/1/user", "--json", "-n", "2", "--for", "30s")
	var a ranking.Answer
	if err := json.Unmarshal([]byte(printed), &a); err != nil || code != 0 {
		t.Fatalf("it ended with %d and printed %s", code, printed)
	}
	if len(a.Top) != 2 || a.Top[0].Descriptor != "plan=basic/1,user=ann" || a.Top[0].Remaining != 0 || a.Top[0].Path != "plan=basic%2F1/user" ||
		a.Top[1].Descriptor != "plan=basic/1,user=bob" || a.Top[1].Hits != 8 || a.Over != 1 || a.Counted != 3 || !a.Complete {
		t.Errorf("got %s\nwant ann, who is over, before bob, and cara counted, but not among the first two", printed)
	}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--domain", "shop"}, 0, []string{"3 keys have hits, 1 has nothing left", "plan=basic/1,user=ann   rule plan=basic/1/user", "Saw all"}},
		{[]string{"--domain", "shpo"}, 2, []string{"404: No file configures domain shpo. Did you mean shop?"}},
		{[]string{"--domain", "shop", "--for", "2"}, 2, []string{"--for"}},
	} {
		printed, code := top(c.args...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(printed, want) {
				t.Errorf("weir counters top %v ended with %d, want %d, and printed\n%s\nwant %q in it", c.args, code, c.code, printed, want)
			}
		}
	}
}

// The user of envoyproxy/ratelimit may not list keys. Whoever is told so can paste what is missing.
func TestAMissingRightToListKeysIsNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.WithACL("limiter", "secret", "resetchannels", "~*", "+incrby", "+expire", "+get", "+ping", "+hello"))
	w := startWeir(t, `
- key: plan
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 10 }
`, "REDIS_URL="+server.Addr, "REDIS_AUTH=limiter:secret", "KEY_FORMAT=ratelimit", "ALGORITHM=fixed_window", "HISTORY=false", patientRedis)
	c := w.client(t)
	eventually(t, "it counts", func() error {
		_, err := c.hit("basic", "ann")
		return err
	})
	top := func() (string, int) {
		p := process.Start(t, "weir counters top", nil, weirBinary, "counters", "top", "--admin", strings.TrimPrefix(w.admin, "http://"), "--domain", "shop")
		code := p.ExitCode(t)
		return p.Log.String(), code
	}
	printed, code := top()
	const line = "ACL SETUSER limiter +scan +dbsize +get"
	if code != 2 || !strings.Contains(printed, line) {
		t.Fatalf("without the right to list keys it ended with %d and printed\n%s\nwant the line to paste: %s", code, printed, line)
	}
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "limiter", "+scan", "+dbsize", "+get").Err(); err != nil {
		t.Fatal(err)
	}
	if printed, code = top(); code != 0 || !strings.Contains(printed, "plan=basic,user=ann") {
		t.Errorf("after the line was pasted it ended with %d and printed\n%s", code, printed)
	}
}
