package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

const (
	longHeader      = 55_000 // bytes of x-user; Envoy takes 60 KiB of headers
	eachTurn        = 5      // requests on each connection
	longHeaderLimit = 3      // that a user's limit admits
)

// TestMain lets the test binary be the plain server, in a process of its own as weir is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == plainArgument {
		fmt.Fprintln(os.Stderr, servePlain(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// plainArgument as first argument makes the test binary the plain server.
const plainArgument = "plain-server"

// plain refuses every request at once.
type plain struct {
	rlspb.UnimplementedRateLimitServiceServer
}

func (plain) ShouldRateLimit(context.Context, *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	return &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_OVER_LIMIT}, nil
}

// servePlain serves it with grpc-go's default options.
func servePlain(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("plain server: %w", err)
	}
	server := grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(server, plain{})
	return server.Serve(listener)
}

// startPlain runs the plain server, and returns its port once it answers.
func startPlain(t *testing.T) (port int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	port = process.Port(t)
	addr := fmt.Sprint("127.0.0.1:", port)
	p := process.Run(t, "plain server", exec.Command(self, plainArgument, addr))
	c := weirtest.Dial(t, addr)
	p.AwaitReady(t, func() error {
		_, err := c.Forward(&rlspb.RateLimitRequest{})
		return err
	})
	return port
}

// flood asks an Envoy on so many connections at once as one user with a long name, and returns how many requests passed.
func flood(t *testing.T, addr, user string, connections int) (passed int) {
	t.Helper()
	user += strings.Repeat("x", longHeader-len(user))
	request := []byte("GET / HTTP/1.1\r\nhost: shop\r\nx-user: " + user + "\r\n\r\n")
	var free atomic.Int64
	var asking errgroup.Group
	for range connections {
		asking.Go(func() error {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(process.Hang))
			answers := bufio.NewReader(conn)
			for range eachTurn {
				if _, err := conn.Write(request); err != nil {
					return err
				}
				answer, err := http.ReadResponse(answers, nil)
				if err != nil {
					return err
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				switch answer.StatusCode {
				case http.StatusServiceUnavailable: // by Envoy, which has no upstream
					free.Add(1)
				case http.StatusTooManyRequests:
				default:
					return fmt.Errorf("Envoy answers %s, want 429, or 503 of what passes", answer.Status)
				}
			}
			return nil
		})
	}
	if err := asking.Wait(); err != nil {
		t.Fatal(err)
	}
	return int(free.Load())
}

// Where no verdict comes in time, Envoy lets a request pass (failure_mode_deny is false), and a client must not be able to
// make weir late by long headers alone. How many verdicts are late depends on Envoy and the machine as well: a plain
// grpc-go server, which decides nothing, tells how many behind the same Envoy, in turns with weir. weir does somewhat more
// than that one, so what passes weir may be what passes that one under a quarter more connections, and a quarter of all. A
// weir that reads slowly takes several times as long, and is far beyond. Where a quarter passes the plain server, too, the
// machine is too slow to tell; and it may stand still while weir has its turn, so only the fourth such finding is weir's.
func TestLongHeadersBypassNoLimit(t *testing.T) {
	w := weirtest.Serve(t, fmt.Sprintf("- key: user\n  rate_limit: { unit: day, requests_per_unit: %d }\n", longHeaderLimit))
	_, weirPort, _ := net.SplitHostPort(w.GRPC)
	timeouts := []string{"0.1s", "0.02s"} // k8s/envoy's, and Envoy's default
	var listeners []map[string]string
	for _, timeout := range timeouts {
		for _, service := range []string{"weir", "plain"} {
			listeners = append(listeners, map[string]string{"Service": service, "Timeout": timeout})
		}
	}
	e := weirtest.EnvoyOf(t, "long_header.yaml.tmpl", map[string]any{"Listeners": listeners,
		"Services": map[string]any{"weir": weirPort, "plain": startPlain(t)}}, len(listeners))
	t.Log("| connections | timeout | requests | past weir's limit | past the plain server | the same with a quarter more connections |")
	for _, timeout := range timeouts {
		for _, connections := range []int{20, 50, 160, 200} {
			if testing.Short() && (connections != 160 || timeout != timeouts[0]) {
				continue
			}
			t.Run(fmt.Sprintf("%d connections within %s", connections, timeout), func(t *testing.T) {
				wantNoMoreThanPlain(t, e, timeout, connections)
			})
		}
	}
}

// wantNoMoreThanPlain prints a row of the table: how many requests of so many connections get past weir's limit, and how
// many past the plain server.
func wantNoMoreThanPlain(t *testing.T, e *weirtest.Envoy, timeout string, connections int) {
	t.Helper()
	weir, plain := e.Addrs["weir-"+timeout], e.Addrs["plain-"+timeout]
	turns := 4
	if testing.Short() {
		turns = 2
	}
	all := connections * eachTurn * turns
	for attempt := range 4 {
		user := fmt.Sprint(timeout, " ", connections, " ", attempt)
		beyond, free, handicapped := -longHeaderLimit, 0, 0
		for range turns {
			free += flood(t, plain, user, connections)
			beyond += flood(t, weir, user, connections)
			handicapped += flood(t, plain, user, connections*5/4) * 4 / 5
		}
		t.Logf("| %d | %s | %d | %d | %d | %d |", connections, timeout, all, max(0, beyond), free, handicapped)
		if handicapped > all/4 || beyond <= handicapped+all/4 {
			return
		}
	}
	t.Error("four times more requests got past weir's limit than past a plain server under a quarter more load, and a quarter of all")
}
