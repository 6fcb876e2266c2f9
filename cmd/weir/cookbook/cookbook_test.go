package cookbook_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

var write = flag.Bool("write", false, "put what really becomes of the requests into the cookbook, for its author to judge")

// TestEveryRecipeDoesWhatItShows runs all recipes of the cookbook through one Envoy and one weir.
func TestEveryRecipeDoesWhatItShows(t *testing.T) {
	recipes := readRecipes(t, document)
	if len(recipes) < 10 {
		t.Fatalf("found only %d recipes: this test looks in the wrong place", len(recipes))
	}
	var names []string
	files := make(map[string]string)
	for _, r := range recipes {
		names, files[r.name+".yaml"] = append(names, r.name), "domain: "+r.name+"\ndescriptors:\n"+r.file
	}
	w := weirtest.ServeFiles(t, files)
	// As who takes over a recipe would.
	if printed, code := process.Command(t, nil, process.Weir(t), "check", w.Config, "--strict"); code != 0 {
		t.Errorf("weir check --strict ends with %d:\n%s", code, printed)
	}
	recorder, port := startRecorder(t, w.GRPC, names)
	addrs := startEnvoy(t, recipes, port, startUpstream(t))
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			if r.file == "" || len(r.envoy) == 0 || len(r.transcript) == 0 {
				t.Fatalf("%s:%d: a recipe has blocks for Envoy, a descriptor file and a transcript: what is not shown is not tested",
					document, r.line)
			}
			for _, want := range r.transcript {
				got := recorder.play(t, r.name, addrs[r.name], want)
				if *write {
					rewrite(t, want, got)
				} else if got != want {
					t.Errorf("the recipe of line %d shows\n%s\nbut this becomes of its requests:\n%s", r.line, want, got)
				}
			}
			if left := len(recorder.asked[r.name]); left > 0 {
				t.Errorf("Envoy asked %d times more than the transcript shows", left)
			}
		})
	}
}

// TestHeaderRecipesLinkToTheirBound wants each recipe that is keyed on a header to link to the one that bounds it:
// callers choose how long a header is, and all of it goes to weir.
func TestHeaderRecipesLinkToTheirBound(t *testing.T) {
	const bounds = "bound-what-you-key-on"
	keyed := 0
	for _, r := range readRecipes(t, document) {
		envoy, err := json.Marshal(r.envoy)
		if err != nil {
			t.Fatal(err)
		}
		if r.name == bounds || !strings.Contains(string(envoy), `"request_headers":`) {
			continue
		}
		keyed++
		if !strings.Contains(r.prose, "](#"+bounds+")") {
			t.Errorf("%s:%d: the recipe is keyed on a header, and has no link to #%s", document, r.line, bounds)
		}
	}
	if keyed < 7 {
		t.Errorf("found only %d recipes that are keyed on a header: this test looks for the wrong thing", keyed)
	}
}

// rewrite replaces a transcript in the document.
func rewrite(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err == nil {
		err = os.WriteFile(document, []byte(strings.Replace(string(text), from, to, 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
