package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// drag draws a line with the mouse.
func (b *tab) drag(fromX, fromY, toX, toY float64) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, e := range []input.DispatchMouseEventParams{
			{Type: input.DispatchMouseEventTypeMouseMoved, X: fromX, Y: fromY},
			{Type: input.DispatchMouseEventTypeMousePressed, X: fromX, Y: fromY, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1},
			{Type: input.DispatchMouseEventTypeMouseMoved, X: (fromX + toX) / 2, Y: toY, Button: input.MouseButtonLeft, Buttons: 1},
			{Type: input.DispatchMouseEventTypeMouseMoved, X: toX, Y: toY, Button: input.MouseButtonLeft, Buttons: 1},
			{Type: input.DispatchMouseEventTypeMouseReleased, X: toX, Y: toY, Button: input.MouseButtonLeft, ClickCount: 1},
		} {
			if _, err := cdp.Call(ctx, t, input.DispatchMouseEvent, e); err != nil {
				return err
			}
		}
		return nil
	}))
}
