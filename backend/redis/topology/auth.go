package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/weirproxy/weir/descriptors/regular"
)

// login holds the credentials for new connections. Redis does not close open connections when a password changes, but
// closes those of a user that is removed.
type login struct {
	file string

	mu             sync.Mutex
	user, password string // if there is a file, as last read
}

// newLogin makes a login from credentials, from a file of credentials, or without any. The file must be readable now.
func newLogin(auth, file string) (*login, error) {
	l := &login{file: file}
	l.user, l.password = splitAuth(auth)
	if file == "" {
		return l, nil
	}
	return l, l.read()
}

// splitAuth splits user:password. Without a colon, auth is the default user's password.
func splitAuth(auth string) (user, password string) {
	if user, password, found := strings.Cut(auth, ":"); found {
		return user, password
	}
	return "", auth
}

// credentials returns the credentials for a new connection of go-redis. While the file cannot be read, these are the
// last ones.
func (l *login) credentials(context.Context) (user, password string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != "" {
		if err := l.read(); err != nil && l.password == "" {
			return "", "", err
		}
	}
	return l.user, l.password, nil
}

// read reads the file. The caller holds mu.
func (l *login) read() error {
	content, err := regular.ReadFile(l.file)
	if err != nil {
		return fmt.Errorf("redis: the file of its credentials: %w", err)
	}
	user, password := splitAuth(strings.TrimRight(string(content), "\r\n"))
	if password == "" {
		return fmt.Errorf("redis: the file of its credentials %s: %w", l.file, errNoPassword)
	}
	l.user, l.password = user, password
	return nil
}

var errNoPassword = errors.New("there is no password in it: write password or user:password")

// forTarget returns the login of one server. Credentials in its URL, if any, take precedence.
func (l *login) forTarget(t target) *login {
	if t.password == "" {
		return l
	}
	return &login{user: t.user, password: t.password}
}
