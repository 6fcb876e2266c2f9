package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// startReader runs weir history serve over a Redis, and waits until it is ready.
func startReader(t *testing.T, redis string, flags ...string) (reader *process.Process, address string) {
	t.Helper()
	port := process.Port(t)
	env := []string{"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", port), "REDIS_TIMEOUT=10s", "REDIS_HISTORY_URL=" + redis}
	reader = process.Start(t, "weir history serve", env, weirBinary, append([]string{"history", "serve"}, flags...)...)
	address = fmt.Sprintf("http://127.0.0.1:%d", port)
	reader.AwaitReady(t, func() error { return wantStatus(address+"/readyz", 200) })
	return reader, address
}

// rulesAt returns what a port answers of rules, but for what its own process differs in.
func rulesAt(address string) (string, error) {
	body, code, err := fetch(address + "/api/v1/rules")
	var a struct {
		Loaded int64
		Serves []string
		Rules  json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &a)
	}
	if err != nil || code != 200 || a.Loaded == 0 || !strings.Contains(strings.Join(a.Serves, " "), "rules") {
		return "", fmt.Errorf("%s answers %d %s (%v), want rules, and when they were loaded", address, code, body, err)
	}
	lines, code, err := fetch(address + "/rlconfig")
	if err != nil || code != 200 {
		return "", fmt.Errorf("%s/rlconfig answers %d %s (%v)", address, code, lines, err)
	}
	return string(a.Rules) + "\n" + lines, nil
}

// The reader has the files of the fleet: it knows the same rules and limits, also after files have changed.
func TestAReaderWithTheFilesOfAFleetKnowsItsRules(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	w := startWeir(t, tenAnHour, "REDIS_URL="+redis.Addr, "REDIS_TIMEOUT=10s", "DRAIN_DELAY=0s")
	reader, address := startReader(t, redis.Addr, "--config", w.config)
	sameRules := func(limit string) {
		t.Helper()
		eventually(t, "the reader knows the rules of weir, with the limit "+limit, func() error {
			want, err := rulesAt(w.admin)
			if err != nil {
				return err
			}
			got, err := rulesAt(address)
			if err != nil || got != want {
				return fmt.Errorf("the rules are\n%s (%v), want those of weir serve:\n%s", got, err, want)
			}
			for _, at := range []string{address, w.admin} {
				if got, err := instant(at, `sum(weir_limit_requests)`); err != nil || got != limit {
					return fmt.Errorf("at %s the limit is %s (%v), want %s", at, got, err, limit)
				}
			}
			return nil
		})
	}
	sameRules("10")
	w.configure(t, strings.ReplaceAll(tenAnHour, "requests_per_unit: 10", "requests_per_unit: 12"))
	sameRules("12")

	if err := os.WriteFile(filepath.Join(w.config, "mail.yaml"), []byte("domain: mail\nno_such_key: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a broken file is logged", func() error {
		if log := reader.Log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "no_such_key") {
			return fmt.Errorf("the log is\n%s", log)
		}
		return nil
	})
	sameRules("12") // a broken file breaks its own domain alone
	reader.Signal(t, syscall.SIGHUP)
	eventually(t, "SIGHUP has the files read again", func() error {
		if log := reader.Log.String(); !strings.Contains(log, "as SIGHUP asks") {
			return fmt.Errorf("the log is\n%s", log)
		}
		return nil
	})
	sameRules("12")
	if body, _, _ := fetch(address + "/metrics"); strings.Contains(body, "weir_requests_total") {
		t.Errorf("/metrics tells of requests, and none comes here:\n%s", body)
	}
	reader.Terminate(t)
	if code := reader.ExitCode(t); code != 0 {
		t.Errorf("SIGTERM ends it with %d, want 0\n%s", code, reader.Log.String())
	}
}

func TestAReaderWithoutFilesOutlivesSIGHUP(t *testing.T) {
	t.Parallel()
	reader, address := startReader(t, redistest.Single(t).Addr)
	reader.Signal(t, syscall.SIGHUP)
	eventually(t, "it says that there is nothing to read", func() error {
		if log := reader.Log.String(); !strings.Contains(log, "SIGHUP changes nothing") {
			return fmt.Errorf("the log is\n%s", log)
		}
		return nil
	})
	if body, code, err := fetch(address + "/api/v1/rules"); err != nil || code != 200 || !strings.Contains(body, `"serves":["history"],"rules":[]`) {
		t.Errorf("without files it answers %d %s (%v), want no rules, and that it has none", code, body, err)
	}
}

func TestAReaderNeedsTheDirectoryThatItIsGiven(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "shop.yaml")
	if err := os.WriteFile(plain, []byte("domain: shop\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "missing"): "no such file or directory", plain: "is no directory"} {
		p := process.Start(t, "weir history serve", []string{"REDIS_HISTORY_URL=127.0.0.1:1"}, weirBinary, "history", "serve", "--config", path)
		if code := p.ExitCode(t); code != 2 || !strings.Contains(p.Log.String(), path) || !strings.Contains(p.Log.String(), want) {
			t.Errorf("--config %s: exit code %d, printed\n%s\nwant 2, the path, and %q", path, code, p.Log.String(), want)
		}
	}
}
