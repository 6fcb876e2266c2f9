package admin

import (
	"net/http"
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
	}{
		{"/metrics", "/metrics", 2},
		{"/stats", "/stats", 4},
		{"/rlconfig", "/api/v1/rules", 4},
		{"/api/v1/rules", "/api/v1/denials", 4},
		{"/api/v1/denials", "/rlconfig", 4},
		{"/debug/pprof/", "/debug/pprof/goroutine?debug=2", 4},
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
			if left := time.Until(slow[0].deadline); left != 5*time.Second {
				t.Errorf("a client of %s has %v to read a piece, want 5s: it holds up others", c.read, left)
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
