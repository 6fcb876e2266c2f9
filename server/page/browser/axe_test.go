package browser

import (
	"os"
	"sync"

	"github.com/chromedp/chromedp"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// axe is a checker of accessibility, as a script.
var axe = sync.OnceValues(func() (string, error) {
	file, err := process.FindTool("axe.min.js")
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile(file)
	return string(script), err
})

// wantNothingAmiss wants axe-core to find nothing that keeps anybody from using the page: also no target too small for a
// finger and no name given twice, by which it does not judge unasked.
func (b *tab) wantNothingAmiss() {
	b.Helper()
	script, err := axe()
	if err != nil {
		b.Fatalf("axe-core, which .ci/tools installs: %v", err)
	}
	judged := eval[struct {
		Passed int
		Amiss  []string
	}](b, script+`; axe.run({rules: {'target-size': {enabled: true}, 'duplicate-id': {enabled: true}}}).then(told => ({
		Passed: told.passes.length, Amiss: told.violations.map(v => v.id + ': ' + v.help + ' ' +
			v.nodes.map(n => n.html.slice(0, 120) + ' ' + n.failureSummary).join('; '))}))`, chromedp.EvalAwaitPromise)
	for _, amiss := range judged.Amiss {
		b.Errorf("axe-core says: %s", amiss)
	}
	if judged.Passed < 20 {
		b.Errorf("axe-core has judged by %d rules: this proves nothing", judged.Passed)
	}
}
