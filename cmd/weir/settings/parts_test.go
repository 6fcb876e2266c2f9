package settings

import (
	"testing"

	"github.com/weirproxy/weir/server/rls"
)

func TestHeadersHaveNamesOnlyIfTheyAreOn(t *testing.T) {
	usual := rls.Names{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	check := func(when string, want rls.Headers) {
		t.Helper()
		s := mustRead(t, dropIn)
		if got := s.Answers().Headers; got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	t.Setenv("LIMIT_REQUEST_RESET_HEADER", "X-Reset")
	check("nothing on", rls.Headers{})
	t.Setenv("LIMIT_REQUEST_HEADERS_ENABLED", "true")
	request := usual
	request.Reset = "X-Reset"
	check("requests'", rls.Headers{Request: request})
	t.Setenv("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
	check("both", rls.Headers{Request: request, Answer: usual})
}
