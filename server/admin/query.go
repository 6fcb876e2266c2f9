package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"
)

// maxQuery is the longest query that is read, in bytes.
const maxQuery = 16 << 10

// refusal is an error with its HTTP status; the text is a sentence for the client.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// queryOf returns a request's parameters. Its error is a refusal.
func queryOf(r *http.Request) (url.Values, error) {
	if len(r.URL.RawQuery) > maxQuery {
		return nil, refuse(http.StatusBadRequest, "The query is longer than %d bytes.", maxQuery)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "The query cannot be read: %v.", err)
	}
	return values, nil
}

// checkNames refuses parameters that are not known: a mistyped one would be silently ignored.
func checkNames(values url.Values, known ...string) error {
	for name, given := range values {
		if !slices.Contains(known, name) || len(given) != 1 || !utf8.ValidString(given[0]) {
			return refuse(http.StatusBadRequest, "Parameter %q is unknown, given twice, or not UTF-8: give each of %q once.",
				name, known)
		}
	}
	return nil
}
