package admin

import (
	"net/http"
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
	synctest.Test(t, func(t *testing.T) {
		port := serving(Parts{History: threeMonths(t).History})
		ask := func(w http.ResponseWriter) {
			port.ServeHTTP(w, fromHere("GET", "/api/v1/history?from=-80d&points=100"))
		}
		var reading sync.WaitGroup
		var readers []*reader
		for range maxAnswers {
			r := newReader()
			readers = append(readers, r)
			reading.Go(func() { ask(r) })
		}
		synctest.Wait()
		for _, r := range readers {
			if left := time.Until(r.deadline); left != maxReadingTime {
				t.Errorf("a reader has %v for its answer, want %v: it holds up others and memory", left, maxReadingTime)
			}
		}
		began, third := time.Now(), httptest.NewRecorder()
		ask(third)
		if waited := time.Since(began); third.Code != 503 || third.Header().Get("Retry-After") != "10" || waited != maxWaitingTime ||
			!strings.Contains(third.Body.String(), `{"error":"2 other questions about the history are being answered`) {
			t.Errorf("beside two answers that nobody reads a question got, after %v, %d %v %s; want 503 and when to come back, "+
				"since each answer that is held takes memory of the limiter", waited, third.Code, third.Header(), third.Body)
		}
		time.AfterFunc(maxWaitingTime/2, func() { close(readers[0].letGo) })
		if ask(third); !strings.HasSuffix(third.Body.String(), "]}\n") {
			t.Errorf("a question that could wait got %s; want an answer once another is read", third.Body)
		}
		close(readers[1].letGo)
		reading.Wait()
	})
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
