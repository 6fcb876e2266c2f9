package charttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// A section is what the runbook says of one alert.
type section struct {
	commands []command
	queries  []string // PromQL
}

// A command is what the runbook has people paste, and what it says of the answer.
type command struct {
	line       string
	prints     []string // each a line of what it prints; … stands for anything
	afterwards bool     // once the alert's reason is gone
}

var (
	sectionHeading = regexp.MustCompile(`(?m)^## (.*)$`)
	fencedBlock    = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")
)

// readRunbook reads the sections, by their headings.
func readRunbook(t *testing.T) map[string]section {
	t.Helper()
	document := readText(t, filepath.Join(root, "cmd", "weir", "RUNBOOK.md"))
	sections := make(map[string]section)
	headings := sectionHeading.FindAllStringSubmatchIndex(document, -1)
	for i, at := range headings {
		end := len(document)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		sections[document[at[2]:at[3]]] = readSection(t, document[at[1]:end])
	}
	return sections
}

func readSection(t *testing.T, text string) (s section) {
	t.Helper()
	over := strings.Index(text, "*Afterwards")
	for _, at := range fencedBlock.FindAllStringSubmatchIndex(text, -1) {
		kind, content := text[at[2]:at[3]], text[at[4]:at[5]]
		switch kind {
		case "promql":
			s.queries = append(s.queries, content)
		case "sh":
			for line := range strings.Lines(content) {
				line = strings.TrimSuffix(line, "\n")
				if prints, is := strings.CutPrefix(line, "#> "); is {
					last := &s.commands[len(s.commands)-1]
					last.prints = append(last.prints, prints)
				} else {
					s.commands = append(s.commands, command{line: line, afterwards: over >= 0 && at[0] > over})
				}
			}
		default:
			t.Fatalf("the runbook has a block of %q, which no test runs", kind)
		}
	}
	return s
}

// A shell runs commands as the runbook's reader does, who has set what it says to set.
type shell struct {
	before string // what the reader ran first
	env    []string
	dir    string
}

// missing runs a command, and says what of its promise is missing, or nothing.
func (s shell) missing(c command) string {
	cmd := exec.Command("bash", "-o", "pipefail", "-c", s.before+c.line)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if len(c.prints) == 0 && err != nil {
		return fmt.Sprintf("it ends with %v and prints\n%s", err, out)
	}
	if missing := c.missingIn(string(out)); missing != "" {
		return fmt.Sprintf("%s (%v)", missing, err)
	}
	return ""
}

// missingIn says what a command should have printed and has not, or nothing.
func (c command) missingIn(out string) string {
	for _, want := range c.prints {
		line := regexp.MustCompile("(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		if !line.MatchString(out) {
			return fmt.Sprintf("it should print %q, but prints\n%s", want, out)
		}
	}
	return ""
}

// wantAll runs the commands of a section for one time, before or after its reason is gone. What it tells may take a moment
// to be so, and needs requests.
func (s shell) wantAll(t *testing.T, alert string, commands []command, afterwards bool, load func()) {
	t.Helper()
	for _, c := range commands {
		if c.afterwards != afterwards {
			continue
		}
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			load()
			missing := s.missing(c)
			if missing == "" {
				break
			}
			if t.Failed() || time.Since(began) > process.Hang {
				t.Errorf("RUNBOOK.md, %s: %s\n%s", alert, c.line, missing)
				break
			}
		}
	}
}

// with is the shell with other variables.
func (s shell) with(variables ...string) shell {
	s.env = append(append([]string{}, s.env...), variables...)
	return s
}

// newShell is the shell of whoever looks at one weir, in a cluster that kubectl asks.
func newShell(t *testing.T, w *weir, redis string) shell {
	t.Helper()
	c := startKubeAPI(t, w)
	s := shell{dir: t.TempDir()}
	s.env = []string{"PATH=" + filepath.Dir(weirBinary) + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "KUBECONFIG=" + c.kubeconfig, "REDIS=" + redis,
		"REDISCLI_AUTH=secret", "DOMAIN=shop", "DESCRIPTOR=user=ann", "DIR=" + w.descriptors, "TOKEN=" + w.env["ADMIN_TOKEN_FILE"]}
	const heading = "Before you look"
	var forward string
	for _, cmd := range readRunbook(t)[heading].commands {
		switch {
		case strings.Contains(cmd.line, "port-forward"):
			forward = strings.TrimSuffix(cmd.line, " &")
		case strings.HasPrefix(cmd.line, "export ADMIN="): // that of a forwarded port
			s.before += fmt.Sprintf("export ADMIN=%s GRPC=%s\n", strings.TrimPrefix(w.admin, "http://"), w.grpc)
		case strings.HasPrefix(cmd.line, "export POD="):
			if missing := s.missing(command{line: cmd.line + "; echo $POD", prints: []string{podName}}); missing != "" {
				t.Fatalf("RUNBOOK.md, %s: %s\n%s", heading, cmd.line, missing)
			}
			s.before += "export POD=" + podName + "\n"
		default:
			s.before += cmd.line + "\n"
		}
	}
	// No pod's port can be forwarded here: that kubectl understands the line, finds the pod and asks for it is all to be seen.
	if missing := s.missing(command{line: forward}); !c.forwarded.Load() {
		t.Errorf("RUNBOOK.md, %s: %s\n%s", heading, forward, missing)
	}
	return s
}
