package historycmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
)

func TestMoveChangesTheNodesOfARing(t *testing.T) {
	nodes := redistest.Ring(t, 3)
	two, three := nodes[0].Addr+","+nodes[1].Addr, nodes[0].Addr+","+nodes[1].Addr+","+nodes[2].Addr
	t.Setenv("REDIS_TYPE", "ring")
	t.Setenv("REDIS_HISTORY_URL", two)
	t.Setenv("REDIS_TIMEOUT", "60s")
	written, err := runHistory(t, "export", "--admin", someHistory(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := runHistory(t, "import", csvFile(t, written)); err != nil {
		t.Fatalf("weir history import prints %q, %v", got, err)
	}
	before, err := runHistory(t, "export")
	if err != nil {
		t.Fatal(err)
	}
	got, err := runHistory(t, "move", "--to", three, "--dry-run")
	if err != nil || !strings.Contains(got, "\nWould move ") || !strings.Contains(got, " → "+nodes[2].Addr) || strings.Contains(got, "Now set") {
		t.Errorf("a dry run prints %q, %v", got, err)
	}
	if keys := nodes[2].Client().DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("a dry run leaves %d keys on the new node", keys)
	}
	for p := range history.Partitions {
		nodes[2].Client().Set(t.Context(), fmt.Sprintf("weir:h{%d}:format", p), "1", 0)
	}
	for _, flag := range []string{"--dry-run", "--json", "--progress=false"} {
		if got, err := runHistory(t, "move", "--to", three, flag); codeOf(err) != 2 || got != "" || !strings.Contains(err.Error(), "is at "+nodes[2].Addr+" already") {
			t.Errorf("a move that is refused prints %q with %s, %v, want the error alone", got, flag, err)
		}
	}
	nodes[2].Client().FlushAll(t.Context())
	got, err = runHistory(t, "move", "--to", three, "--progress")
	if err != nil || !strings.Contains(got, "\nMoved ") || strings.Contains(got, "LOST") {
		t.Errorf("a move prints %q, %v", got, err)
	}
	t.Setenv("REDIS_HISTORY_URL", nodes[0].Addr) // one of its nodes is enough
	if got, err := runHistory(t, "verify"); err != nil || !strings.Contains(got, ": each holds exactly what it ever counted.\n") {
		t.Errorf("after a move weir history verify prints %q, %v", got, err)
	}
	if moved, err := runHistory(t, "export"); err != nil || sortedLines(moved) != sortedLines(before) {
		t.Errorf("after a move the export is another than before, %v: %d and %d bytes", err, len(moved), len(before))
	}
	if got, err = runHistory(t, "move", "--to", three); err != nil || !strings.HasPrefix(got, "Nothing to move.\nNow set REDIS_HISTORY_URL=") {
		t.Errorf("a move to where all is prints %q, %v", got, err)
	}
	if got, err = runHistory(t, "move", "--to", three, "--dry-run", "--json"); err != nil || !strings.Contains(got, `"partitions":[]`) {
		t.Errorf("a dry run of a move to where all is prints %q, %v", got, err)
	}
	nodes[2].Kill()
	t.Setenv("REDIS_TIMEOUT", "300ms")
	if got, err = runHistory(t, "move", "--to", two); codeOf(err) != 2 || !strings.Contains(err.Error(), "say --lost "+nodes[2].Addr) {
		t.Errorf("a move from a node that is away prints %q, %v", got, err)
	}
	got, err = runHistory(t, "move", "--to", two, "--lost", nodes[2].Addr, "--dry-run")
	if err != nil || !strings.Contains(got, " LOST  ") || strings.Contains(got, " 0 series, 0.0 MB\n") || !strings.Contains(got, "HITS THAT WERE COUNTED THERE ARE LOST") {
		t.Errorf("a dry run of a move away from a lost node prints %q, %v", got, err)
	}
	got, err = runHistory(t, "move", "--to", two, "--lost", nodes[2].Addr, "--json")
	var r redishistory.MoveResult
	if err != nil || json.Unmarshal([]byte(got), &r) != nil || len(r.Partitions) == 0 || !r.Partitions[0].Lost || len(r.Nodes) != 2 {
		t.Errorf("a move away from a lost node prints %.300q, %v", got, err)
	}
}

// A node may be too small for what it is to have.
func TestMoveToAFullNodeGoesOn(t *testing.T) {
	nodes := redistest.Ring(t, 2)
	t.Setenv("REDIS_TYPE", "ring")
	t.Setenv("REDIS_HISTORY_URL", nodes[0].Addr)
	t.Setenv("REDIS_TIMEOUT", "60s")
	written, err := runHistory(t, "export", "--admin", someHistory(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := runHistory(t, "import", csvFile(t, written)); err != nil {
		t.Fatalf("weir history import prints %q, %v", got, err)
	}
	nodes[1].Client().ConfigSet(t.Context(), "maxmemory", "1")
	got, err := runHistory(t, "move", "--to", nodes[1].Addr)
	if codeOf(err) != 2 || !strings.Contains(err.Error(), "OOM") || !strings.HasSuffix(got, " partitions left to move.\n") {
		t.Errorf("a move to a node that is full prints %q, %v", got, err)
	}
	nodes[1].Client().ConfigSet(t.Context(), "maxmemory", "0")
	if got, err := runHistory(t, "move", "--to", nodes[1].Addr); err != nil || !strings.Contains(got, "\nNow set ") {
		t.Errorf("the same command again, with room, prints %q, %v", got, err)
	}
	if got, err := runHistory(t, "verify"); err != nil {
		t.Errorf("weir history verify then prints %q, %v", got, err)
	}
}

func TestMoveIsForARing(t *testing.T) {
	t.Setenv("REDIS_HISTORY_URL", "redis-1:6379,redis-2:6379")
	got, err := runHistory(t, "move", "--to", "redis:6379")
	if codeOf(err) != 2 || got != "" || !strings.Contains(err.Error(), "only the history on a ring is moved (REDIS_TYPE=ring)") {
		t.Errorf("a move without a type of Redis prints %q, %v", got, err)
	}
}

func TestMoveNamesTheListAtFault(t *testing.T) {
	nodes := redistest.Ring(t, 2)
	a, b := nodes[0].Addr, nodes[1].Addr
	t.Setenv("REDIS_TYPE", "ring")
	t.Setenv("REDIS_HISTORY_URL", a)
	for args, want := range map[string]string{
		"--to foo":                   "--to: item 1: it has no port",
		"--to " + a + "," + a:        "--to: items 1 and 2 are both " + a,
		"--to ,":                     "--to: there is no server in it",
		"--to " + b + " --lost 7105": "--lost 7105: it has no port",
		"--to " + b + " --lost x:1":  "--lost x:1: the ring has no such node, but " + a,
		"--to " + a + " --lost " + a: "--lost " + a + ": --to names it too",
	} {
		if got, err := runHistory(t, append([]string{"move"}, strings.Fields(args)...)...); codeOf(err) != 2 || got != "" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("weir history move %s prints %q, %v, want %q", args, got, err, want)
		}
	}
	t.Setenv("REDIS_HISTORY_URL", "foo")
	if got, err := runHistory(t, "move", "--to", a); codeOf(err) != 2 || got != "" || !strings.HasPrefix(err.Error(), "REDIS_HISTORY_URL: ") {
		t.Errorf("a move with a wrong URL prints %q, %v, want that it names the variable", got, err)
	}
}
