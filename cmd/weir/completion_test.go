package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completions are lines, the last word of which is being typed, and what it can become; files are those of completionFiles.
var completions = []struct {
	line string
	want string
	but  string // what must not be offered
}{
	{"weir ", "call check completion counters downsample history serve version", ""},
	{"weir co", "completion counters", ""},
	{"weir counters ", "get grant reset", "check"},
	{"weir counters get --", "--admin --descriptor --domain --json --timeout --token-file --help --version", "--hits --strict"},
	{"weir counters get --domain shop --des", "--descriptor", ""},
	{"weir counters get --domain check --js", "--json", "--strict"}, // the value of a flag is no command
	{"weir history export --format ", "csv openmetrics", ""},
	{"weir history export --format=op", "openmetrics", ""},
	{"weir check --strict --ex", "--explain", ""},
	{"weir check ", "limits/ shop.yaml two words.yaml", "serve"},
	{"weir check sh", "shop.yaml", ""},
	{"weir serve --config ", "limits/", "shop.yaml"},
	{"weir call --ca sh", "shop.yaml", ""},
	{"weir call --domain ", "", "shop.yaml call"},
	{"weir history top -n ", "", "shop.yaml show"},
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

// completionScript writes the script for a shell into a file, and beside it a weir that it can ask.
func completionScript(t *testing.T, shell string) string {
	t.Helper()
	script, code := runWeir(t, "completion", shell)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	dir := t.TempDir()
	weir := "#!/bin/sh\n" + asWeir + "=1 exec '" + os.Args[0] + "' \"$@\"\n"
	for name, text := range map[string]string{"_weir": script, "weir": weir} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "_weir")
}

// completers say how each shell is asked what the last of some words can become.
var completers = map[string]func(script, line string) []string{
	"bash": func(script, line string) []string {
		words := strings.Split(strings.Replace(line, "=", " = ", 1), " ") // as bash parts them
		return append([]string{"--norc", "-c", `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; ` +
			`((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"; complete -p weir >/dev/null`, "bash", script}, words...)
	},
	// zsh completes only where somebody types. Its own functions, which draw the choices, are replaced by some that print them.
	"zsh": func(script, line string) []string {
		return append([]string{"-f", "-c", `
compdef() { : }
compset() { words[CURRENT]=${words[CURRENT]#*=} }
offer() { local w; for w in "$@"; do [[ $w == ${words[CURRENT]}* ]] && print -r -- $w; done; true }
compadd() { shift; offer "$@" }
_files() { if [[ $1 == -/ ]]; then offer *(/N); else offer *(N); fi }
source "$1"; shift; words=("$@"); CURRENT=$#; _weir`, "zsh", script}, strings.Split(line, " ")...)
	},
	"fish": func(script, line string) []string {
		return []string{"--no-config", "-c", `source $argv[1]; complete -C $argv[2] | string replace -r '\t.*' '' | string replace -r '^--[a-z]+=' ''; true`,
			script, line}
	},
}

// The shells are those of this machine; bash is one of them.
func TestShellsComplete(t *testing.T) {
	for shell, words := range completers {
		if _, err := exec.LookPath(shell); err != nil && shell != "bash" {
			continue
		}
		script, dir := completionScript(t, shell), completionFiles(t)
		for _, c := range completions {
			t.Run(shell+" "+c.line, func(t *testing.T) {
				command := exec.Command(shell, words(script, c.line)...)
				command.Dir = dir
				command.Env = []string{"PATH=" + filepath.Dir(script) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=dumb"}
				out, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v: %s", command, err, out)
				}
				got := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(out), "/\n", "\n")), "\n")
				for _, want := range strings.Fields(strings.ReplaceAll(c.want, "two words", "two_words")) {
					if want = strings.ReplaceAll(strings.TrimSuffix(want, "/"), "two_words", "two words"); !slices.Contains(got, want) {
						t.Errorf("it offers %q, want %s among it", got, want)
					}
				}
				for _, but := range strings.Fields(c.but) {
					if slices.Contains(got, but) {
						t.Errorf("it offers %q: %s makes no sense there", got, but)
					}
				}
				if c.want == "" && len(out) > 0 {
					t.Errorf("it offers %q, want nothing", got)
				}
			})
		}
	}
}
