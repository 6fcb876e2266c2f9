package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/weirproxy/weir/descriptors/regular"
)

// login holds the credentials for new connections. Redis keeps open ones when a password changes, and closes those of a
// user that is removed. A connection whose login fails is closed at once.
type login struct {
	file string

	mu             sync.Mutex
	user, password string // of a file: as last read
}

// newLogin makes a login of credentials, of a file of them, or of neither. The file must be readable now.
func newLogin(auth, file string) (*login, error) {
	l := &login{file: file}
	l.user, l.password = splitAuth(auth)
	if file == "" {
		return l, nil
	}
	return l, l.read()
}

// splitAuth splits user:password; without a colon it is the default user's password.
func splitAuth(auth string) (user, password string) {
	if user, password, found := strings.Cut(auth, ":"); found {
		return user, password
	}
	return "", auth
}

// credentials returns those of a new connection, for go-redis: the last ones while the file cannot be read.
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

// forTarget returns the login of one server: its URL's own credentials, if it has any, go first.
func (l *login) forTarget(t target) *login {
	if t.password == "" {
		return l
	}
	return &login{user: t.user, password: t.password}
}
