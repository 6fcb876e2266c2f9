package e2e_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func TestCallSaysInItsExitCodeWhetherARequestPasses(t *testing.T) {
	t.Parallel()
	w := startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1 }
`)
	nobody := net.JoinHostPort("127.0.0.1", strconv.Itoa(process.Port(t)))
	for _, c := range []struct {
		promise string
		addr    string
		flags   []string
		want    int
	}{
		{"under the limit is 0", w.addr(), nil, 0},
		{"over the limit is 1", w.addr(), nil, 1},
		{"a look over the limit is 1", w.addr(), []string{"--hits", "0"}, 1},
		{"a refund is 0", w.addr(), []string{"--refund"}, 0},
		{"one hit fits again", w.addr(), nil, 0},
		{"many calls, all over, are 1", w.addr(), []string{"--rate", "20", "--for", "200ms"}, 1},
		{"nobody there is 2", nobody, nil, 2},
	} {
		args := []string{"call", "--addr", c.addr, "--domain", "shop", "--descriptor", "plan=basic,user=ann"}
		args = append(args, c.flags...)
		p := process.Start(t, fmt.Sprint("weir ", args), nil, weirBinary, args...)
		if got := p.ExitCode(t); got != c.want {
			t.Errorf("%s: the exit code is %d, want %d; it printed:\n%s", c.promise, got, c.want, p.Log.String())
		}
	}
}
