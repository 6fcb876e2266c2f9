package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds an answer of the admin port, in bytes: a million points of a history take some 90 MB.
const maxAnswer = 256 << 20

// checkPort says what is wrong with the flags that say which admin port to ask, and how long to wait.
func checkPort(address string, timeout time.Duration) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("--admin %q is not HOST:PORT", address)
	}
	if timeout <= 0 {
		return fmt.Errorf("--timeout %v must be above 0", timeout)
	}
	return nil
}

// askPort sends a request to an admin port and returns the body of a good answer. Its errors are for people.
func askPort(ctx context.Context, timeout time.Duration, request *http.Request) ([]byte, error) {
	address := request.URL.Host
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy: the token is for the admin port alone
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err // without the URL, which is long
		}
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d: %s", address, response.StatusCode, reasonIn(body))
	}
	return body, nil
}

// reasonIn is what an answer says is wrong: its text, or the error in its JSON.
func reasonIn(body []byte) string {
	var said struct{ Error string }
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		return said.Error
	}
	return strings.TrimSpace(string(body))
}
