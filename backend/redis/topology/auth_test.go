package topology

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/descriptors/regular"
)

// writeFile writes a file of the test's own.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	rewrite(t, file, content)
	return file
}

// rewrite replaces a file as a whole, as those who mount secrets do.
func rewrite(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func TestCredentialsAreReadAsDocumented(t *testing.T) {
	tests := []struct{ auth, user, password string }{
		{"", "", ""},
		{"word", "", "word"},
		{"ann:word", "ann", "word"},
		{"ann:wo:rd", "ann", "wo:rd"},
		{":word", "", "word"},
	}
	for _, test := range tests {
		if user, password := splitAuth(test.auth); user != test.user || password != test.password {
			t.Errorf("%q is user %q with password %q, want %q with %q", test.auth, user, password, test.user, test.password)
		}
	}
}

func TestCredentialsFileMustHaveAPassword(t *testing.T) {
	files := []string{"/nowhere/auth", "/dev/zero", t.TempDir(), writeFile(t, "auth", "ann:"+strings.Repeat("a", regular.MaxSize+1))}
	for _, content := range []string{"", "\n", "ann:\n"} {
		files = append(files, writeFile(t, "auth", content))
	}
	for _, file := range files {
		if _, err := newLogin("", file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s gives %v: want an error that names the file", file, err)
		}
	}
}

func TestPasswordRotatesWithoutARestart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := redistest.Single(t, redistest.WithACL("ann", secret, "~weir:*", "+ping", "+set"))
	file := writeFile(t, "auth", "ann:"+secret+"\n")
	on, _ := openTopology(t, Config{URL: s.Addr, AuthFile: file})
	client, _ := on.Owner(nil)
	open := client.Conn() // holds a connection from the time before
	defer open.Close()
	if err := open.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	const next = secret + "-2"
	if err := s.Client().ACLSetUser(ctx, "ann", "resetpass", ">"+next).Err(); err != nil {
		t.Fatal(err)
	}
	if err := open.Ping(ctx).Err(); err != nil {
		t.Errorf("a connection that was open when the password changed: %v; Redis keeps those", err)
	}
	if err := set(on, keyNumber(1)); !goredis.IsAuthError(err) {
		t.Errorf("a new connection with the old password gives %v, want that it is wrong", err)
	}
	rewrite(t, file, "ann:"+next)
	if err := set(on, keyNumber(1)); err != nil {
		t.Errorf("the file has the new password: %v", err)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if user, password, err := on.(singleClient).login.credentials(ctx); err != nil || user != "ann" || password != next {
		t.Errorf("while the file is away, the credentials are %q, %q, %v; want the last ones", user, password, err)
	}
}

func TestRemovedPasswordNeedsNoRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithPassword(secret))
	on, _ := openTopology(t, Config{URL: s.Addr})
	if err := set(on, keyNumber(1)); !goredis.IsAuthError(err) {
		t.Errorf("without a password: %v, want that one is needed", err)
	}
	if err := s.Client().ConfigSet(context.Background(), "requirepass", "").Err(); err != nil {
		t.Fatal(err)
	}
	if err := set(on, keyNumber(1)); err != nil {
		t.Errorf("no password is needed any more: %v; a connection from before spoils the pool", err)
	}
}
