package config

import (
	"testing"

	"github.com/weirproxy/weir/server/rls"
)

func TestHeadersHaveNamesOnlyIfTheyAreOn(t *testing.T) {
	usual := rls.Names{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	check := func(environment string, want rls.Headers) {
		t.Helper()
		s := mustRead(t, environment+" LIMIT_REQUEST_RESET_HEADER=X-Reset")
		if got := s.Answers().Headers; got != want {
			t.Errorf("%s: %+v, want %+v", environment, got, want)
		}
	}
	check("", rls.Headers{})
	request := usual
	request.Reset = "X-Reset"
	check("LIMIT_REQUEST_HEADERS_ENABLED=true", rls.Headers{Request: request})
	check("LIMIT_REQUEST_HEADERS_ENABLED=true LIMIT_RESPONSE_HEADERS_ENABLED=true", rls.Headers{Request: request, Answer: usual})
}
