package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/server/connlimit"
	"github.com/weirproxy/weir/server/denials"
)

// reader reads an answer only when it is let go.
type reader struct {
	*httptest.ResponseRecorder
	letGo    chan struct{}
	deadline time.Time // by which it must have
}

func (r *reader) Write(b []byte) (int, error) {
	<-r.letGo
	return r.ResponseRecorder.Write(b)
}

func (r *reader) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

func (r *reader) SetWriteDeadline(at time.Time) error {
	r.deadline = at
	return nil
}

func TestAnswerHoldsItsSemaphoreUntilRead(t *testing.T) {
	const history, export = "/api/v1/history?from=-80d&points=100", "/api/v1/history/export?format=openmetrics"
	text := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir_up 1\n")) })
	for _, c := range []struct {
		read, asked, beside string // what is read is in the way of what is asked; the third is open, as exports must not hold up people
		turns               int
		within              time.Duration
		busy                string
	}{
		{"/metrics", "/metrics", "/stats", connlimit.Scrapes, connlimit.ScrapeTimeout, "2 other answers are being made"},
		{"/stats", "/stats", "/livez", maxRuleAnswers, connlimit.ReadTimeout, "4 other answers"},
		{"/rlconfig", "/api/v1/rules", "/metrics", maxRuleAnswers, connlimit.ReadTimeout, "4 other answers"},
		{"/api/v1/rules", "/api/v1/denials", "/readyz", maxRuleAnswers, connlimit.ReadTimeout, "4 other answers"},
		{"/api/v1/denials", "/rlconfig", "/", maxRuleAnswers, connlimit.ReadTimeout, "4 other answers"},
		{"/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/stats", maxProfiles, connlimit.ProfileTimeout, "4 other answers"},
		{history, history, export, maxHistoryAnswers, readTimeout, "2 other answers"},
		{export, export, history, maxExports, readTimeout, "Another export of the history is being read"},
	} {
		synctest.Test(t, func(t *testing.T) {
			port := serving(Parts{Metrics: text, Stats: text, Rules: inForce{}, Profiles: true, History: threeMonths(t).History,
				Denials: &Denials{Recorder: denials.New(), Rules: inForce{}, Now: time.Now}})
			var reading sync.WaitGroup
			readers := make([]*reader, c.turns)
			for i := range readers {
				readers[i] = &reader{httptest.NewRecorder(), make(chan struct{}), time.Time{}}
				reading.Go(func() { port.ServeHTTP(readers[i], fromHere("GET", c.read)) })
			}
			synctest.Wait()
			for _, r := range readers {
				if left := time.Until(r.deadline); left != c.within {
					t.Errorf("a reader of %s has %v for its answer, want %v: it holds up others and memory", c.read, left, c.within)
				}
			}
			began, w := time.Now(), get(port, c.asked)
			if waited := time.Since(began); w.Code != 503 || w.Header().Get("Retry-After") != "10" || waited != queueTimeout ||
				!strings.HasPrefix(w.Body.String(), c.busy) {
				t.Errorf("beside %d answers of %s that nobody reads %s got, after %v, %d %v %s; want 503 and when to come back, since each "+
					"answer that is held takes memory of the limiter", c.turns, c.read, c.asked, waited, w.Code, w.Header(), w.Body)
			}
			if w := get(port, c.beside); w.Code != 200 {
				t.Errorf("beside %s that nobody reads %s got %d %s", c.read, c.beside, w.Code, w.Body)
			}
			time.AfterFunc(queueTimeout/2, func() { close(readers[0].letGo) })
			if w := get(port, c.asked); w.Code != 200 {
				t.Errorf("%s that could wait for a reader of %s got %d %s; want an answer once another is read", c.asked, c.read, w.Code, w.Body)
			}
			for _, r := range readers[1:] {
				close(r.letGo)
			}
			reading.Wait()
		})
	}
}
