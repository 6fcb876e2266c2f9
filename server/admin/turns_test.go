package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/server/denials"
)

func TestAnswersThatNobodyReadsAreFew(t *testing.T) {
	text := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir_up 1\n")) })
	for _, c := range []struct {
		read, asked string
		most        int
		within      time.Duration
	}{
		{"/metrics", "/metrics", 2, 10 * time.Second},
		{"/stats", "/stats", 4, 30 * time.Second},
		{"/rlconfig", "/api/v1/rules", 4, 30 * time.Second},
		{"/api/v1/rules", "/api/v1/denials", 4, 30 * time.Second},
		{"/api/v1/denials", "/rlconfig", 4, 30 * time.Second},
		{"/debug/pprof/", "/debug/pprof/goroutine?debug=2", 4, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			port := serving(Parts{Metrics: text, Stats: text, Rules: inForce{}, Profiles: true,
				Denials: &Denials{Recorder: denials.New(), Rules: inForce{}, Now: time.Now}})
			var reading sync.WaitGroup
			slow := make([]*reader, c.most)
			for i := range slow {
				slow[i] = newReader()
				reading.Go(func() { port.ServeHTTP(slow[i], fromHere("GET", c.read)) })
			}
			synctest.Wait()
			if left := time.Until(slow[0].deadline); left != c.within {
				t.Errorf("a client of %s has %v to read its answer, want %v: it holds up others", c.read, left, c.within)
			}
			for _, open := range []string{"/livez", "/readyz", "/"} {
				if w := get(port, open); w.Code != 200 {
					t.Errorf("beside slow clients %s is answered with %d %s", open, w.Code, w.Body)
				}
			}
			w := get(port, c.asked)
			again := w.Header().Get("Retry-After")
			if w.Code != 503 || again != "10" || !strings.Contains(w.Body.String(), "ask again in 10 seconds.") {
				t.Errorf("beside %d answers of %s that nobody reads, %s got %d, again in %q, %s; want 503, since each takes memory",
					c.most, c.read, c.asked, w.Code, again, w.Body)
			}
			time.AfterFunc(5*time.Second, func() { close(slow[0].letGo) })
			if w := get(port, c.asked); w.Code != 200 {
				t.Errorf("%s that could wait for a client of %s got %d %s", c.asked, c.read, w.Code, w.Body)
			}
			for _, s := range slow[1:] {
				close(s.letGo)
			}
			reading.Wait()
		})
	}
}

// reader reads an answer only when it is let go.
type reader struct {
	*httptest.ResponseRecorder
	letGo    chan struct{}
	deadline time.Time // by which it must have
}

func newReader() *reader { return &reader{httptest.NewRecorder(), make(chan struct{}), time.Time{}} }

func (r *reader) Write(b []byte) (int, error) {
	<-r.letGo
	return r.ResponseRecorder.Write(b)
}

func (r *reader) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

func (r *reader) SetWriteDeadline(at time.Time) error {
	r.deadline = at
	return nil
}

func TestAnAnswerHasItsTurnUntilItIsRead(t *testing.T) {
	for _, c := range []struct {
		path, beside string // asked for, and open all the same: exports must not hold up people
		turns        int
		busy         string
	}{
		{"/api/v1/history?from=-80d&points=100", "/api/v1/history/export", maxAnswers,
			"2 other answers are being made"},
		{"/api/v1/history/export?format=openmetrics", "/api/v1/history", maxExports, "Another export of the history is being read"},
	} {
		synctest.Test(t, func(t *testing.T) {
			port := serving(Parts{History: threeMonths(t).History})
			var reading sync.WaitGroup
			readers := make([]*reader, c.turns)
			for i := range readers {
				readers[i] = newReader()
				reading.Go(func() { port.ServeHTTP(readers[i], fromHere("GET", c.path)) })
			}
			synctest.Wait()
			for _, r := range readers {
				if left := time.Until(r.deadline); left <= 0 || left > maxReadingTime {
					t.Errorf("a reader of %s has %v for its answer, want %v at most: it holds up others and memory", c.path, left, maxReadingTime)
				}
			}
			began, w := time.Now(), get(port, c.path)
			if waited := time.Since(began); w.Code != 503 || w.Header().Get("Retry-After") != "10" || waited != maxWaitingTime ||
				!strings.HasPrefix(w.Body.String(), c.busy) {
				t.Errorf("beside answers that nobody reads %s got, after %v, %d %v %s; want 503 and when to come back, since each "+
					"answer that is held takes memory of the limiter", c.path, waited, w.Code, w.Header(), w.Body)
			}
			if w := get(port, c.beside); w.Code != 200 {
				t.Errorf("beside %s that nobody reads %s got %d %s", c.path, c.beside, w.Code, w.Body)
			}
			time.AfterFunc(maxWaitingTime/2, func() { close(readers[0].letGo) })
			if w := get(port, c.path); w.Code != 200 {
				t.Errorf("%s that could wait got %d %s; want an answer once another is read", c.path, w.Code, w.Body)
			}
			for _, r := range readers[1:] {
				close(r.letGo)
			}
			reading.Wait()
		})
	}
}

func TestARefusalGivesTheTurnBack(t *testing.T) {
	k := threeMonths(t)
	port := serving(Parts{History: k.History})
	for range 10 {
		get(port, "/api/v1/history?from=yesterday")
	}
	if w := get(port, "/api/v1/history/verify"); w.Code != 200 {
		t.Errorf("after questions that were refused another got %d %s", w.Code, w.Body)
	}
}
