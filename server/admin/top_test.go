package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/ranking"
)

// topPort is an admin port over the store of another.
func topPort(t *testing.T, store func(ranking.Store) ranking.Store) *port {
	t.Helper()
	p := newPort(t, &Guard{})
	p.counters.Store = store(p.counters.Store)
	return p
}

func asItIs(s ranking.Store) ranking.Store { return s }

func TestTheFullestKeysAreServed(t *testing.T) {
	p := topPort(t, asItIs)
	p.hit(t, "user", 9)
	p.hit(t, "guest", 5)
	code, body := p.ask("GET", "/api/v1/counters/top?domain=shop&n=5&for=10s")
	var a ranking.Answer
	if err := json.Unmarshal([]byte(body), &a); code != 200 || err != nil {
		t.Fatalf("got %d %s", code, body)
	}
	const want = `"top":[{"descriptor":"guest=ann","path":"guest","limit":"10/minute","algorithm":"token_bucket","burst":5,` +
		`"hits":5,"remaining":0,"share":1,"reset_seconds":6},` +
		`{"descriptor":"user=ann","path":"user","limit":"10/minute","algorithm":"sliding_window",` +
		`"hits":9,"remaining":1,"share":0.9,"reset_seconds":61}]}`
	if !strings.HasSuffix(body, want) || a.Seen != 2 || a.Held != 2 || !a.Complete || a.Counted != 2 || a.Over != 1 {
		t.Errorf("got\n%s\nwant 2 keys of 2, one of them over, and …\n%s", body, want)
	}
	if _, body := p.ask("GET", "/help"); !strings.Contains(body, "/api/v1/counters/top?domain=&path=&n=20&for=2s") {
		t.Errorf("the list of what the port serves lacks the path:\n%s", body)
	}
}

func TestAWrongQuestionAboutTheFullestKeysSaysWhatIsRight(t *testing.T) {
	p := topPort(t, asItIs)
	for target, want := range map[string]string{
		"?n=0":                        "400 n must be",
		"?domain=shop&n=0":            "400 n must be",
		"?domain=shop&n=1001":         "400 n must be",
		"?domain=shop&for=2":          "400 for must be a time from 100ms to 1m0s, such as 10s",
		"?domain=shop&for=2m":         "400 for must be",
		"?domain=shop&descriptor=x":   `400 Parameter "descriptor" is unknown`,
		"?domain=shpo":                "404 No file configures domain shpo. The configured ones are shop",
		"?domain=shop&path=friend":    "404 Rule friend of domain shop is unlimited",
		"?domain=shop&path=user/path": "404 No rule of domain shop has the path user/path",
	} {
		code, body := p.ask("GET", "/api/v1/counters/top"+target)
		number, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(code) != number || !strings.Contains(body, text) {
			t.Errorf("%q is answered %d %s; want %s", target, code, body, want)
		}
	}
}

// slow is a store whose listing waits.
type slow struct {
	ranking.Store
	began, end chan struct{}
}

func (s *slow) List(ctx context.Context, l backend.Listing) (backend.Listed, error) {
	s.began <- struct{}{}
	select {
	case <-s.end:
	case <-ctx.Done():
	}
	return backend.Listed{Complete: true}, ctx.Err()
}

func TestOneQuestionAboutTheFullestKeysIsAnsweredAtATime(t *testing.T) {
	s := &slow{began: make(chan struct{}), end: make(chan struct{})}
	p := topPort(t, func(store ranking.Store) ranking.Store { s.Store = store; return s })
	const target = "/api/v1/counters/top?domain=shop"
	done := make(chan int)
	ask := func(ctx context.Context) {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, fromHere("GET", target, nil).WithContext(ctx))
		done <- w.Code
	}
	go ask(t.Context())
	<-s.began
	w := httptest.NewRecorder()
	p.ServeHTTP(w, fromHere("GET", target, nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "ask again once it is") {
		t.Errorf("a second question is answered %d, Retry-After %q: %s; want 503 and when to come again", w.Code,
			w.Header().Get("Retry-After"), w.Body)
	}
	close(s.end)
	if code := <-done; code != 200 {
		t.Errorf("the first question is answered %d", code)
	}
	// Whoever leaves makes room for the next.
	s.end = make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	go ask(ctx)
	<-s.began
	leave()
	<-done
	go ask(t.Context())
	<-s.began
	close(s.end)
	if code := <-done; code != 200 {
		t.Errorf("after a client that left the next question is answered %d; want its turn to be free", code)
	}
}
