package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// The narrow window has buckets twice as wide, in which the largest minutes of more outcomes may have met.
func TestEveryWindowWidthShowsTheSamePeak(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	from, to := aWeek()
	var told []string
	for _, width := range []int64{1400, 390} {
		b := open(t, w.Admin, look{width: width, height: 900, fragment: fmt.Sprintf("%s&from=%d&to=%d", pay, from, to)})
		told = append(told, eval[string](b, `document.querySelector('#summary [data-part=peak]').textContent`))
	}
	if told[0] == "" || told[0] != told[1] {
		t.Errorf("at 1400 pixels it says %q, and at 390 %q; want the same of the same range", told[0], told[1])
	}
}

func TestDraggingOverTheCurveSelectsNoText(t *testing.T) {
	t.Parallel()
	from, to := aWeek()
	b := open(t, ofAYear(t).Admin, look{fragment: fmt.Sprintf("%s&from=%d&to=%d", pay, from, to)})
	at := func(what input.DispatchMouseEventType, x, y float64) {
		b.do(call(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: what, X: x, Y: y, Button: "left", Buttons: 1, ClickCount: 1}))
	}
	box := eval[[]float64](b, `['#plot', '#summary b'].map(e => document.querySelector(e).getBoundingClientRect()).flatMap(r => [r.left, r.top, r.right, r.bottom])`)
	for name, x := range map[string]float64{"within it": box[0] + 200, "from beside it": box[0] - 6} {
		at("mousePressed", x, box[1]+100)
		at("mouseMoved", x+100, box[3]-60)
		at("mouseMoved", box[6]-2, box[7]-5) // to the end of what is written below
		// Labels that the words below the curve have, too, prove nothing: its largest minute may be on any day.
		labels := eval[[]string](b, `(got => [...document.querySelectorAll('#plot text')].map(e => e.textContent).filter(label =>
			label.length > 2 && got.includes(label) && !document.querySelector('#summary').textContent.includes(label)))(getSelection().toString())`)
		if len(labels) > 0 {
			t.Errorf("dragging over the curve %s selects its labels %q", name, labels)
		}
		b.press(kb.Escape)
		at("mouseReleased", x, box[1]+100) // no stretch
	}
}

func TestAdmittedKeysAreNotCalledDenied(t *testing.T) {
	t.Parallel()
	w := serve(t, map[string]string{"a.yaml": `{domain: a, descriptors: [{key: user, rate_limit: {requests_per_unit: 3, unit: day}}]}`})
	send(t, w, hits{2, "a", []string{"user", "ann"}})
	b := open(t, w.Admin, look{fragment: "#domain=a&path=user"})
	if got := eval[string](b, `document.querySelector('#who-name').textContent`); !strings.HasPrefix(got, "Who asked most in the last ") {
		t.Errorf("where nobody was refused the list is called %q, want that of who asked most", got)
	}
}

// The history begins in the middle of the time before: its sums are of less than those of the range.
func TestIncompleteComparisonIsMarkedEverywhere(t *testing.T) {
	t.Parallel()
	days := int64(400)
	if testing.Short() {
		days = 120
	}
	_, end := aWeek()
	from, to := end-(days-28)*86400, end-(days-88)*86400
	b := open(t, ofAYear(t).Admin, look{fragment: fmt.Sprintf("#from=%d&to=%d", from, to)})
	for _, where := range []string{"#before", ".card", "#tiles"} {
		if !eval[bool](b, fmt.Sprintf(`/9 weeks before, since \w/.test(document.querySelector(%q).textContent)`, where)) {
			t.Errorf("%s says %q, want since when there are hits in the time that it compares with", where,
				eval[string](b, fmt.Sprintf(`document.querySelector(%q).textContent`, where)))
		}
	}
}
