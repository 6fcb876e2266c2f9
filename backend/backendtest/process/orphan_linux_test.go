package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// orphanMaker makes this test binary start a process and wait to be killed.
const orphanMaker = "PROCESS_ORPHAN_MAKER"

func TestNoProcessOutlivesItsTests(t *testing.T) {
	if os.Getenv(orphanMaker) != "" {
		p, err := Launch("sleep", exec.Command("sleep", "600"), new(Output), "")
		fmt.Println(p.Pid(), err)
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
		return
	}
	tests := exec.Command(os.Args[0], "-test.run=^TestNoProcessOutlivesItsTests$")
	tests.Env = append(os.Environ(), orphanMaker+"=1")
	if _, err := tests.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := tests.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tests.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = tests.Process.Kill()
	_ = tests.Wait() // it was killed
	var pid int
	if _, scanned := fmt.Sscanf(line, "%d <nil>", &pid); err != nil || scanned != nil {
		t.Fatalf("the tests printed %q, %v; want the number of the process that they started", line, err)
	}
	Eventually(t, "a process ends with the tests that started it, however these end", func() error {
		state, err := os.ReadFile(fmt.Sprint("/proc/", pid, "/stat"))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return nil
		}
		return fmt.Errorf("process %d runs on", pid)
	})
}
