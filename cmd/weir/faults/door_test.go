package faults_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// attackedCap bounds what a weir may ever hold of memory, in MB, whatever its clients send.
const attackedCap = 400

// frame is one of HTTP/2, of any stream.
type frame struct {
	kind, flags byte
	payload     string
}

const (
	data, headers, reset, settings, continuation = 0, 1, 3, 4, 9

	endStream, endHeaders = 1, 4
)

// headerBlock is a header block of a call in HPACK: POST, http, :path, :authority, content-type.
func headerBlock(path string) string {
	return "\x83\x86\x04" + string(rune(len(path))) + path + "\x01\x01x\x0f\x10\x10application/grpc"
}

// message is the only message of a call.
func message(body string) frame {
	return frame{data, endStream, "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body}
}

// askHeaders begins the call that Envoys make.
var askHeaders = headerBlock("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")

// attacks are what hostile clients send on each connection: so many streams, each of these frames.
var attacks = []struct {
	number, what        string
	quick, readsNothing bool
	first               frame // of the connection
	streams             int
	frames              []frame
}{
	{"29a", "HEADERS without a message", true, false, frame{kind: settings}, 1000, []frame{{headers, endHeaders, askHeaders}}},
	{"29b", "messages announced and never whole", false, false, frame{kind: settings}, 200,
		[]frame{{headers, endHeaders, askHeaders}, {data, 0, "\x00\x00\x10\x00\x00" + strings.Repeat("x", 16<<10-5)}}},
	{"29c", "header lists of 16 MB in CONTINUATION", false, false, frame{kind: settings}, 1,
		append([]frame{{headers, 0, askHeaders}}, slices.Repeat([]frame{{continuation, 0, strings.Repeat("\x00\x01a\x64"+strings.Repeat("v", 100), 157)}}, 1000)...)},
	{"29d", "header lists of a byte for each field", false, false, frame{kind: settings}, 256,
		[]frame{{headers, endHeaders, askHeaders + "\x40\x01a\x00" + strings.Repeat("\xbe", 1800)}}},
	{"29e", "messages of a byte for each frame", false, false, frame{kind: settings}, 100,
		append([]frame{{headers, endHeaders, askHeaders}, {data, 0, "\x00\x00\x10\x00\x00"}}, slices.Repeat([]frame{{data, 0, "x"}}, 1000)...)},
	{"29f", "whole requests whose answers nobody takes", false, false, noWindow, 256, []frame{{headers, endHeaders, askHeaders}, message("")}},
	{"29g", "health watches", false, false, frame{kind: settings}, 256,
		[]frame{{headers, endHeaders, headerBlock("/grpc.health.v1.Health/Watch")}, message("")}},
	{"29h", "requests that are reset at once", true, false, frame{kind: settings}, 2000,
		[]frame{{headers, endHeaders, askHeaders}, message(""), {reset, 0, "\x00\x00\x00\x08"}}},
	{"29i", "reflection whose answers nobody takes", true, false, noWindow, 256,
		[]frame{{headers, endHeaders, headerBlock("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")},
			message("\x22\x2benvoy.service.ratelimit.v3.RateLimitService")}}, // file_containing_symbol
	{"29j", "requests of 500 descriptors whose answers nobody reads", true, true, frame{kind: settings}, 256,
		[]frame{{headers, endHeaders, askHeaders}, message("\x0a\x01d" + strings.Repeat("\x12\x08\x0a\x06\x0a\x01k\x12\x01v", 500))}},
}

// noWindow says that no answer may be sent.
var noWindow = frame{settings, 0, "\x00\x04\x00\x00\x00\x00"}

// encode returns the bytes of an attack on one connection.
func encode(first frame, streams int, frames []frame) []byte {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	write := func(p frame, stream uint32) {
		b = append(b, byte(len(p.payload)>>16), byte(len(p.payload)>>8), byte(len(p.payload)), p.kind, p.flags)
		b = append(binary.BigEndian.AppendUint32(b, stream), p.payload...)
	}
	write(first, 0)
	for i := range uint32(streams) {
		for _, p := range frames {
			write(p, 2*i+1)
		}
	}
	return b
}

// attack sends on so many connections, each of which is left open until leave is closed. It returns once all have sent
// what they could.
func attack(t *testing.T, addr string, connections int, says []byte, readsNothing bool, leave <-chan struct{}) {
	var sent sync.WaitGroup
	for range connections {
		sent.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Errorf("a hostile client cannot connect: %v; the row says nothing", err)
				return
			}
			go func() {
				<-leave
				conn.Close()
			}()
			if readsNothing {
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			} else {
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
			_, _ = conn.Write(says) // until weir closes it
		})
	}
	sent.Wait()
}

// raced tells a build with the race detector, which needs several times the memory.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestHostileConnectionsTakeNeitherMemoryNorService(t *testing.T) {
	for _, s := range attacks {
		if testing.Short() && !s.quick {
			continue
		}
		t.Run(s.number+" "+s.what, func(t *testing.T) {
			r := startReplica(t, rules(time.Minute))
			client := r.Client(t)
			good := weirtest.StartLoad(t, 1, func(int) error {
				time.Sleep(2 * time.Millisecond)
				status, err := client.Hit(countPlan("allow"), "0")
				if err == nil && status.GetCurrentLimit().GetRequestsPerUnit() != countLimit {
					err = fmt.Errorf("it is answered %v", status)
				}
				return err
			})
			connections := 2000
			if testing.Short() {
				connections = 200
			}
			leave := make(chan struct{})
			attack(t, r.GRPC, connections, encode(s.first, s.streams, s.frames), s.readsNothing, leave)
			good.Reach(t, 100) // what weir has not closed stays
			close(leave)
			good.WantNoFailures(t, "a good client is served beside whatever others do")
			held := r.PeakMemory(t) / 1e6
			if held > attackedCap && !raced() {
				t.Errorf("weir held %d MB beside %d connections with %s; want at most %d", held, connections, s.what, attackedCap)
			}
			t.Logf("%s %s: %d connections, RSS %d of %d MB", s.number, s.what, connections, held, attackedCap)
		})
	}
}
