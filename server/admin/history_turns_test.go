package admin

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
			`{"error":"2 other questions about the history are being answered`},
		{"/api/v1/history/export?format=openmetrics", "/api/v1/history", maxExports, `{"error":"Another export of the history is being read`},
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
				if left := time.Until(r.deadline); left != maxReadingTime {
					t.Errorf("a reader of %s has %v for its answer, want %v: it holds up others and memory", c.path, left, maxReadingTime)
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
