package browser

import (
	"os"

	"github.com/chromedp/chromedp"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// wantNothingAmiss wants axe-core to find nothing that keeps anybody from using the page: also no target too small for a
// finger and no name given twice, by which it does not judge unasked.
func (b *tab) wantNothingAmiss() {
	b.Helper()
	script, err := os.ReadFile(process.Tool(b, "axe.min.js"))
	if err != nil {
		b.Fatal(err)
	}
	judged := eval[struct {
		Passed int
		Amiss  []string
	}](b, string(script)+`; axe.run({rules: {'target-size': {enabled: true}, 'duplicate-id': {enabled: true}}}).then(told => ({
		Passed: told.passes.length, Amiss: told.violations.map(v => v.id + ': ' + v.help + ' ' +
			v.nodes.map(n => n.html.slice(0, 120) + ' ' + n.failureSummary).join('; '))}))`, chromedp.EvalAwaitPromise)
	for _, amiss := range judged.Amiss {
		b.Errorf("axe-core says: %s", amiss)
	}
	if judged.Passed < 20 {
		b.Errorf("axe-core has judged by %d rules: this proves nothing", judged.Passed)
	}
}
