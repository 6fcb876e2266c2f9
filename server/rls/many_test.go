package rls

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/server/limit"
)

// slow is a store that answers calls of many checks when it is told to.
type slow struct {
	backend.Counter
	inside atomic.Int32
	answer chan struct{}
}

func (s *slow) Decide(_ context.Context, checks []backend.Check, _ []backend.Decision) error {
	if len(checks) > fewDescriptors {
		s.inside.Add(1)
		<-s.answer
	}
	return nil
}

// One of 500 descriptors takes 270 KB for the 5 KB of its message: thousands of them must not be there at the same time.
func TestRequestsOfManyDescriptorsAreDecidedSomeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{answer: make(chan struct{})}
		rules := fixture.Config(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 10}}]")
		s := serve(store, rules, limit.Options{}, Options{})
		request := func(descriptors int) []byte {
			texts := slices.Repeat([]string{"k=v"}, descriptors)
			return written(t, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: described(t, texts...)})
		}
		many := request(limit.MaxDescriptors)
		ask := func(ctx context.Context, want codes.Code) {
			if _, err := s.answerTo(ctx, many); status.Code(err) != want {
				t.Errorf("a request of many descriptors ends with %v; want %s", err, want)
			}
		}
		for range 2 * maxDeciding {
			go ask(t.Context(), codes.OK)
		}
		synctest.Wait()
		if inside := store.inside.Load(); inside != maxDeciding {
			t.Errorf("%d requests of many descriptors are decided at the same time; want %d", inside, maxDeciding)
		}
		if _, err := s.answerTo(t.Context(), request(fewDescriptors)); err != nil {
			t.Errorf("a request of %d descriptors waits for others: %v", fewDescriptors, err)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		ask(left, codes.Canceled)
		text := `{"domain": "d", "descriptors": [` + strings.Repeat(`{"entries": [{"key": "k"}]}, `, fewDescriptors) + `{"entries": [{"key": "k"}]}]}`
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequestWithContext(left, "POST", "/json", strings.NewReader(text))); w.Code != 503 {
			t.Errorf("a client of /json that has left is answered with %d %s; want 503: nothing is wrong with what it asked", w.Code, w.Body)
		}
		close(store.answer)
		synctest.Wait()
	})
}
