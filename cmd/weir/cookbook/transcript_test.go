package cookbook_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// startUpstream returns the port of a server that answers 401 where ?password is wrong, and says in x-tokens what ?tokens
// says.
func startUpstream(t *testing.T) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		query := in.URL.Query()
		if n := query.Get("tokens"); n != "" {
			out.Header().Set("x-tokens", n)
		}
		if query.Get("password") == "wrong" {
			out.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// question is a line of a transcript: a request, how often, and what becomes of it.
type question struct {
	text         string // as it stands: 5× GET /pay  x-user: ann
	times        int
	method, path string
	header       [][2]string
	body         string // JSON
	from         string // the caller's address
	later        bool   // Envoy asks again when the stream ends
}

// readQuestion reads "[N× ]METHOD PATH[  HEADER: VALUE]...[  {JSON}][  from ADDRESS]", with two spaces between the parts.
// In a header or a body 257×a stands for 257 letters.
func readQuestion(line string) (*question, error) {
	text, after, _ := strings.Cut(line, "→")
	q := &question{text: strings.TrimSpace(text), times: 1, from: "127.0.0.1", later: strings.Contains(after, " then")}
	rest := q.text
	if n, after, many := strings.Cut(rest, "× "); many {
		var err error
		if q.times, err = strconv.Atoi(n); err != nil {
			return nil, err
		}
		rest = after
	}
	parts := regexp.MustCompile(` {2,}`).Split(rest, -1)
	var ok bool
	if q.method, q.path, ok = strings.Cut(expand(parts[0]), " "); !ok {
		return nil, fmt.Errorf("%q is not METHOD PATH", parts[0])
	}
	for _, part := range parts[1:] {
		name, value, isHeader := strings.Cut(part, ": ")
		from, isFrom := strings.CutPrefix(part, "from ")
		switch {
		case strings.HasPrefix(part, "{"):
			q.body = expand(part)
		case isFrom:
			q.from = from
		case !isHeader:
			return nil, fmt.Errorf("%q is neither a header nor an address", part)
		case name == "jwt":
			q.header = append(q.header, [2]string{"authorization", "Bearer " + token(value)})
		default:
			q.header = append(q.header, [2]string{name, expand(value)})
		}
	}
	return q, nil
}

// expand repeats each letter that has a number before it, as in 257×a.
func expand(text string) string {
	return regexp.MustCompile(`[0-9]+×[a-z]`).ReplaceAllStringFunc(text, func(found string) string {
		number, letter, _ := strings.Cut(found, "×")
		n, _ := strconv.Atoi(number)
		return strings.Repeat(letter, n)
	})
}

// shorten is the inverse of expand, for a value that is too long to show.
func shorten(value string) string {
	if n := len(value); n > 100 && strings.Count(value, value[:1]) == n {
		return fmt.Sprintf("%d×%s", n, value[:1])
	}
	return value
}

// send writes the request as it stands, so that no client makes another path of it, and reads the answer.
func (q *question) send(addr string) (*http.Response, string, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(q.from)}, Timeout: process.Hang}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(process.Hang)); err != nil {
		return nil, "", err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n", q.method, q.path)
	if q.body != "" {
		fmt.Fprintf(&request, "content-type: application/json\r\ncontent-length: %d\r\n", len(q.body))
	}
	for _, h := range q.header {
		fmt.Fprintf(&request, "%s: %s\r\n", h[0], h[1])
	}
	_, unsent := io.WriteString(conn, request.String()+"\r\n"+q.body) // Envoy may refuse before it has read all
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: q.method})
	if err != nil {
		return nil, "", errors.Join(unsent, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), err
}

// line is what becomes of a question: what Envoy asks, and what the caller gets.
type line struct{ question, asked, answer string }

// ask sends a question as often as it says, and returns what becomes of it the last time.
func (r *recorder) ask(domain, addr string, q *question) (line, error) {
	l := line{question: q.text}
	for range q.times {
		answer, body, err := q.send(addr)
		if err != nil {
			return l, fmt.Errorf("%s: %w", q.text, err)
		}
		l.asked = "(nothing)"
		select {
		case l.asked = <-r.asked[domain]: // Envoy asked before it answered
		default:
		}
		l.answer = showAnswer(answer, body)
		if q.later {
			select {
			case then := <-r.asked[domain]:
				l.answer += ", then " + then
			case <-time.After(process.Hang):
				return l, fmt.Errorf("%s: Envoy has not asked again within %v", q.text, process.Hang)
			}
		}
	}
	return l, nil
}

// showAnswer writes an answer: its status, the strictest limit, and the body of a refusal. How long a caller should wait
// depends on the clock: it is shown as dots.
func showAnswer(answer *http.Response, body string) string {
	text := strconv.Itoa(answer.StatusCode)
	if limit, _, _ := strings.Cut(answer.Header.Get("x-ratelimit-limit"), ","); limit != "" {
		text += fmt.Sprintf("  %s of %s left", answer.Header.Get("x-ratelimit-remaining"), limit)
	}
	if to := answer.Header.Get("location"); to != "" {
		text += "  location: " + to
	}
	if wait := answer.Header.Get("retry-after"); wait != "" {
		text += "  retry-after: …"
	}
	if body != "" {
		text += fmt.Sprintf("  %q", body)
	}
	return text
}

// writeLines aligns lines as the document shows them.
func writeLines(lines []line) string {
	var questions, askeds int
	for _, l := range lines {
		questions, askeds = max(questions, utf8.RuneCountInString(l.question)), max(askeds, utf8.RuneCountInString(l.asked))
	}
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%-*s → %-*s → %s\n", questions, l.question, askeds, l.asked, l.answer)
	}
	return out.String()
}
