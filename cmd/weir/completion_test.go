package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weirproxy/weir/cmd/weir/completion"
)

// completions are lines, the last word of which is being typed, and what it can become; files are those of completionFiles.
var completions = []struct {
	line string
	want string
	but  string // what must not be offered
}{
	{"weir ", "call check completion counters downsample help history serve version", ""},
	{"weir co", "completion counters", ""},
	{"weir counters ", "get grant reset", "check"},
	{"weir counters get --", "--admin --descriptor --domain --json --timeout --token-file --help --version", "--hits --strict"},
	{"weir counters get --domain shop --des", "--descriptor", ""},
	{"weir counters get --domain check --js", "--json", "--strict"}, // the value of a flag is no command
	{"weir check --format ", "github gitlab json text", ""},
	{"weir check --format=gi", "github gitlab", ""},
	{"weir check --strict --fo", "--format", ""},
	{"weir check ", "limits/ shop.yaml two words.yaml", "serve"},
	{"weir check sh", "shop.yaml", ""},
	{"weir serve --config ", "limits/", "shop.yaml"},
	{"weir call --ca sh", "shop.yaml", ""},
	{"weir call --domain ", "", "shop.yaml call"},
	{"weir history top -n ", "", "shop.yaml show"},
	{"weir help hist", "history", ""},
	{"weir help counters ", "get grant reset", ""},
	{"weir completion ", "bash fish zsh", ""},
	{"weir --ver", "--version", ""},
}

// completionFiles is a directory in which files are completed.
func completionFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"shop.yaml", "two words.yaml", "limits/x.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// completionScript writes the script for a shell into a file.
func completionScript(t *testing.T, shell string) string {
	t.Helper()
	var c commands
	parser, err := kong.New(&c, kong.Name("weir"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "_weir")
	if err := os.WriteFile(name, []byte(completion.Script(parser.Model.Node, shell)), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// shellOnPath returns a shell. Where it is not installed, bash excepted, it returns "" and says that its script was not run.
func shellOnPath(t *testing.T, shell string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil && shell == "bash" {
		t.Fatal("bash is not installed, and its completion is always tested")
	}
	if err != nil {
		t.Logf("NOT RUN: the completion for %s, as there is no %[1]s on PATH: apt-get install %[1]s", shell)
	}
	return path
}

// completed runs a shell's own command in the directory of files, and returns the lines that it prints.
func completed(t *testing.T, dir, shell string, args ...string) []string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.Command(shell, args...)
	command.Dir, command.Stderr = dir, &stderr
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=dumb"}
	out, err := command.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %q: %v: %s%s", shell, args, err, out, &stderr)
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	return all
}

// offers checks what is offered for each line.
func offers(t *testing.T, offered func(t *testing.T, line string) []string) {
	for _, c := range completions {
		t.Run(c.line, func(t *testing.T) {
			got := offered(t, c.line)
			for i := range got {
				got[i] = strings.TrimSuffix(got[i], "/")
			}
			for _, want := range strings.Fields(strings.ReplaceAll(c.want, "two words", "two_words")) {
				if want = strings.TrimSuffix(strings.ReplaceAll(want, "two_words", "two words"), "/"); !slices.Contains(got, want) {
					t.Errorf("%q offers %q, want %s among it", c.line, got, want)
				}
			}
			for _, but := range strings.Fields(c.but) {
				if slices.Contains(got, but) {
					t.Errorf("%q offers %q: %s makes no sense there", c.line, got, but)
				}
			}
			if c.want == "" && len(got) > 0 {
				t.Errorf("%q offers %q, want nothing", c.line, got)
			}
		})
	}
}

func TestBashCompletes(t *testing.T) {
	bash, script, dir := shellOnPath(t, "bash"), completionScript(t, "bash"), completionFiles(t)
	offers(t, func(t *testing.T, line string) []string {
		words := strings.Split(strings.Replace(line, "=", " = ", 1), " ") // as bash parts them
		args := append([]string{"--norc", "-c", `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; ` +
			`((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"; complete -p weir >/dev/null`, "bash", script}, words...)
		return completed(t, dir, bash, args...)
	})
}

// zsh completes only where somebody types. Its own functions, which draw the choices, are replaced by some that print them.
func TestZshCompletes(t *testing.T) {
	zsh, script, dir := shellOnPath(t, "zsh"), completionScript(t, "zsh"), completionFiles(t)
	if zsh == "" {
		return
	}
	const stubs = `
compdef() { : }
compset() { words[CURRENT]=${words[CURRENT]#*=} }
offer() { local w; for w in "$@"; do [[ $w == ${words[CURRENT]}* ]] && print -r -- $w; done; true }
compadd() { shift; offer "$@" }
_describe() { local w; for w in ${(P)2}; do offer ${w%%:*}; done; true }
_files() { if [[ $1 == -/ ]]; then offer *(/N); else offer *(N); fi }
source "$1"; shift; words=("$@"); CURRENT=$#; _weir`
	offers(t, func(t *testing.T, line string) []string {
		return completed(t, dir, zsh, append([]string{"-f", "-c", stubs, "zsh", script}, strings.Split(line, " ")...)...)
	})
}

func TestFishCompletes(t *testing.T) {
	fish, script, dir := shellOnPath(t, "fish"), completionScript(t, "fish"), completionFiles(t)
	if fish == "" {
		return
	}
	offers(t, func(t *testing.T, line string) []string {
		all := completed(t, dir, fish, "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, script, line)
		for i := range all {
			all[i], _, _ = strings.Cut(all[i], "\t")
			if _, value, is := strings.Cut(all[i], "="); is && strings.Contains(line, "=") {
				all[i] = value // fish completes --flag=value as one word
			}
		}
		return all
	})
}

// What is printed can be pasted into a shell as it stands.
func TestCompletionPrintsAScript(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, code := runWeir(t, "completion", shell)
		if code != 0 || !strings.Contains(out, "--descriptor") && !strings.Contains(out, "-l descriptor") {
			t.Errorf("%s: exit code %d: %.200s; want a script with all flags", shell, code, out)
		}
	}
}
