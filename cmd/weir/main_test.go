package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
)

// runAsWeir names an environment variable that makes this test binary run as weir. kong exits after it prints help, so a
// test of a whole command line needs its own process.
const runAsWeir = "WEIR_TEST_AS_WEIR"

func TestMain(m *testing.M) {
	if os.Getenv(runAsWeir) != "" {
		version = "v1.2.3"
		os.Args[0] = "weir"
		main()
	}
	os.Exit(m.Run())
}

// weirCommand returns a command that runs weir, with only PATH in its environment.
func weirCommand(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), runAsWeir + "=1"}
	return command
}

func TestCommandLineAnswersHelpAndErrors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		code   int
		stdout string
		stderr string
	}{
		"":                               {2, "", "To begin: weir serve --config DIR answers Envoy"},
		"--version":                      {0, "weir v1.2.3\n", ""},
		"version":                        {0, "weir v1.2.3\n", ""},
		"-h":                             {0, "Limits requests for Envoy, and measures them.", ""},
		"check --help":                   {0, "Validate descriptor files", ""},
		"counters get -h":                {0, "Usage: weir counters get ", ""},
		"help":                           {0, "Limits requests for Envoy, and measures them.", ""},
		"help check":                     {0, "Usage: weir check ", ""},
		"help counters get":              {0, "Usage: weir counters get ", ""},
		"help chekc":                     {2, "", "unexpected argument chekc"},
		"suggest":                        {2, "", "weir: name a rule by --path"},
		"simulate ../../k8s/base/config": {2, "", "weir: choose the traffic by one of --csv"},
		"simulate --help":                {0, "Usage: weir simulate <dir> ... [flags]", ""},
		"completion -c bash":             {0, "complete -o default -o bashdefault -C ", ""},
		"completion -c zsh":              {0, "bashcompinit", ""},
		"completion -c fish":             {0, "complete -f -c weir", ""},
		"check":                          {2, "", "weir: name a directory of descriptor files"},
		"chekc":                          {2, "", "weir --help lists the commands"},
		"counters reset --domain a --descriptor b": {2, "", "weir: --descriptor: "},
		"denials --admin a":                        {2, "", "weir: --admin \"a\" is not HOST:PORT"},
		"history top --admin a":                    {2, "", "weir: --admin \"a\" is not HOST:PORT"},
		"history serve":                            {2, "", "weir: the environment names no Redis"},
		"downsample":                               {2, "", "weir: the environment names no Redis"},
		"schema":                                   {0, descriptors.Schema, ""},
		"schema --help": {0, "# yaml-language-server: $schema=https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json\n",
			""}, // which editors look for

		"check . --domain a --domain b":                             {2, "", "--domain is given twice: give it once"},
		"check . --strict --strict":                                 {2, "", "--strict is given twice: give it once"},
		"counters get --domain d --descriptor a=b --descriptor c=d": {2, "", "--descriptor is given twice: give it once"},
		"check nowhere --explain a=b --explain c=d":                 {1, "", "nowhere does not exist"},
		"call --addr x --descriptor a=b --descriptor c=d":           {2, "", "missing flags: --domain="},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			command := weirCommand(strings.Fields(line)...)
			command.Stdout, command.Stderr = &stdout, &stderr
			_ = command.Run() // its code says it
			if code := command.ProcessState.ExitCode(); code != want.code || !strings.Contains(stdout.String(), want.stdout) ||
				!strings.Contains(stderr.String(), want.stderr) || (want.stdout == "") != (stdout.Len() == 0) {
				t.Errorf("weir %s: exit code %d, want %d\nstdout %.300s\nwant %q\nstderr %.1500s\nwant %q", line, code, want.code, &stdout,
					want.stdout, &stderr, want.stderr)
			}
		})
	}
}

// An image has no documents, so the help must have all variables.
func TestServeHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	help, err := weirCommand("serve", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.FieldsFunc(string(help), func(r rune) bool { return r != '_' && !unicode.IsUpper(r) && !unicode.IsDigit(r) })
	for _, name := range config.Names() {
		if !slices.Contains(words, name) {
			t.Errorf("weir serve --help does not name %s", name)
		}
	}
	for _, group := range []string{"Ports", "Redis", "History", "Drain and logs"} {
		if !strings.Contains(string(help), "\n"+group+"\n") {
			t.Errorf("weir serve --help has no group %q", group)
		}
	}
	for line := range strings.Lines(string(help)) {
		if len([]rune(line)) > 100 || strings.ContainsAny(line, "`") || strings.Contains(line, "](") {
			t.Errorf("weir serve --help has a line that no terminal shows well: %s", line)
		}
	}
}

// A shell requests completions by environment variables, and takes each line as a word.
func TestCompletionListsTheNextWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"weir ": {"serve", "help", "history"}, "weir coun": {"counters"}, "weir counters ": {"top", "get"},
		"weir call --dom": {"--domain"}, "weir s": {"serve", "simulate", "suggest"},
	} {
		command := weirCommand()
		command.Env = append(command.Env, "COMP_LINE="+line)
		got, err := command.Output()
		for _, word := range want {
			if err != nil || !slices.Contains(strings.Fields(string(got)), word) {
				t.Errorf("behind %q a shell is told %q (%v), want %s among them", line, got, err, word)
			}
		}
	}
}
