package door

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// visit is a door with its log, and connections to it: as their clients have them, and as the server.
type visit struct {
	*testing.T
	*Door
	log            bytes.Buffer
	clients, conns []net.Conn
}

func open(t *testing.T, most int) *visit {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	v := &visit{T: t}
	v.Door = New(lis, "grpc", most, slog.New(slog.NewTextHandler(&v.log, nil)))
	return v
}

// enter connects a client, and watches its connection.
func (v *visit) enter() {
	v.Helper()
	client, err := net.Dial("tcp", v.Addr().String())
	if err != nil {
		v.Fatal(err)
	}
	raw, err := v.Accept()
	if err != nil {
		v.Fatal(err)
	}
	conn := Watch(raw, raw)
	v.Cleanup(func() { client.Close(); conn.Close() })
	v.clients, v.conns = append(v.clients, client), append(v.conns, conn)
}

// serve reads what client i sends until it is closed, as a server does.
func (v *visit) serve(i int) {
	go func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}(v.conns[i])
}

// send has client i send what the server reads, in pieces of so many bytes.
func (v *visit) send(i, piece int, text string) {
	v.Helper()
	pass(v.T, v.clients[i], v.conns[i], piece, text)
}

// answer has the server send what client i reads.
func (v *visit) answer(i, piece int, text string) {
	v.Helper()
	pass(v.T, v.conns[i], v.clients[i], piece, text)
}

func pass(t *testing.T, from io.Writer, to net.Conn, piece int, text string) {
	t.Helper()
	_ = to.SetReadDeadline(time.Now().Add(process.Hang))
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := io.WriteString(from, text[:n]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(to, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
}

// closed reports whether client i's connection was closed.
func (v *visit) closed(i int) bool {
	_ = v.clients[i].SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := v.clients[i].Read(make([]byte, 1))
	wait, is := err.(net.Error)
	return !is || !wait.Timeout()
}

func frameOf(kind, flags byte, stream uint32, payload string) string {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func TestALineIsLoggedOnceInAWhileWithHowManyWereLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var s Sampled
		for range 3 {
			s.Log(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelWarn, "again")
			time.Sleep(sampleInterval * 2 / 3)
		}
		first, last, _ := strings.Cut(log.String(), "\n")
		if !strings.HasSuffix(first, "others_since=0") || !strings.HasSuffix(last, "others_since=1\n") ||
			strings.Count(last, "\n") != 1 {
			t.Errorf("of three lines those are logged:\n%s\nwant the first and the last, which tells of another", &log)
		}
	})
}

// What a connection holds is known however its frames are cut, and nothing is left of calls that have ended.
func TestWhatACallHoldsIsKnownUntilItsEnd(t *testing.T) {
	asked := frameOf(frameHeaders, endHeaders, 1, "block") + frameOf(frameData, 0, 1, strings.Repeat("x", 2000))
	for _, c := range []struct {
		what, sent, answered string
		held                 int64
	}{
		{"a call that is not whole", asked, "", perStream + perFrame + 2000*perByte},
		{"a header block that goes on", frameOf(frameHeaders, endStream, 1, "b") + frameOf(frameContinuation, 0, 1, "lock"), "", perStream + 4*perHeaders},
		{"a call that is whole", asked + frameOf(frameData, endStream, 1, ""), "", perWhole + 2*perFrame + 2000*perByte},
		{"a call without a message", frameOf(frameHeaders, endHeaders|endStream, 1, "block"), "", perWhole},
		{"a call that was answered", asked + frameOf(frameData, endStream, 1, ""), frameOf(frameHeaders, endHeaders, 1, "ok") + frameOf(frameData, 0, 1, "yes") + frameOf(frameHeaders, endHeaders|endStream, 1, "0"), 0},
		{"a call that its client gave up", asked + frameOf(frameReset, 0, 1, "code"), "", 0},
		{"a call that the server refused", asked, frameOf(frameReset, 0, 1, "code"), 0},
		{"two calls of which one was answered", asked + frameOf(frameHeaders, endHeaders, 1025, "block"), frameOf(frameReset, 0, 1, "code"), perStream},
		{"data of no call", frameOf(frameData, 0, 7, "x") + frameOf(frameData, 0, 0, "x"), "", 0},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			v := open(t, 0)
			v.enter()
			v.send(0, piece, preface+frameOf(4, 0, 0, "")+c.sent)
			v.answer(0, piece, frameOf(4, 0, 0, "")+c.answered)
			if held := v.held.Load(); held != c.held {
				t.Errorf("%s, sent by %d bytes, holds %d; want %d", c.what, piece, held, c.held)
			}
			v.conns[0].Close()
			if held, unreleased := v.held.Load(), v.unreleased.Load(); held != 0 || unreleased != 0 {
				t.Errorf("%s: after its connection was closed %d and %d are held; want nothing", c.what, held, unreleased)
			}
		}
	}
}

func TestACallThatDoesNotComeWholeIsNotWaitedFor(t *testing.T) {
	v := open(t, 0)
	for range 3 {
		v.enter()
	}
	v.send(0, 100, preface+frameOf(frameHeaders, endHeaders, 1, "block"))
	v.send(1, 100, preface+frameOf(frameHeaders, endHeaders|endStream, 1, "block")) // as a health watch
	v.send(2, 100, preface+frameOf(frameHeaders, endHeaders, 1, "block"))
	for range maxSweeps {
		v.sweep()
	}
	if v.Closed(Unfinished) > 0 {
		t.Fatalf("a connection was closed in %d sweeps", maxSweeps)
	}
	v.send(2, 100, frameOf(frameData, endStream, 1, "message")+frameOf(frameHeaders, endHeaders, 3, "block"))
	v.sweep()
	if !v.closed(0) || v.closed(1) || v.closed(2) || v.Closed(Unfinished) != 1 {
		t.Errorf("after %d sweeps closed are %v %v %v; want the one whose call never came whole, alone", maxSweeps+1, v.closed(0), v.closed(1), v.closed(2))
	}
}

// An Envoy whose calls time out resets them as well, but they were whole; and after a time in which weir read nothing,
// some that were not, until calls are answered again.
func TestWhoResetsRequestsThatAreNotWholeIsClosed(t *testing.T) {
	asked := func(id uint32) string { return frameOf(frameHeaders, endHeaders, id, "block") }
	gone := func(id uint32) string { return frameOf(frameReset, 0, id, "code") }
	v := open(t, 0)
	for range 4 {
		v.enter()
		v.send(len(v.conns)-1, 100, preface)
	}
	id := uint32(1)
	for sweep := range resetSweeps {
		for range manyResets {
			v.send(0, 1<<10, asked(id)+gone(id))
			v.send(1, 1<<10, asked(id)+frameOf(frameData, endStream, id, "message")+gone(id))
			v.send(2, 1<<10, asked(id)+gone(id))
			v.send(3, 1<<10, asked(id))
			v.answer(3, 1<<10, gone(id))
			id += 2
		}
		v.send(2, 1<<10, asked(id))
		v.answer(2, 1<<10, frameOf(frameHeaders, endHeaders|endStream, id, "0"))
		id += 2
		if v.Closed(Reset) > 0 {
			t.Fatalf("a connection was closed in %d sweeps", sweep)
		}
		v.sweep()
	}
	for i, want := range []bool{true, false, false, true} {
		if closed := v.closed(i); closed != want {
			t.Errorf("connection %d is closed: %v, want %v: of 0 and 3 all are reset before they are whole, by client or server", i, closed, want)
		}
	}
}

// What the server has of requests that were reset goes when others run: it is not to have more at once.
func TestWhoAsksNothingIsReadSlowly(t *testing.T) {
	v := open(t, 0)
	v.enter()
	read := func(what string, want int) {
		t.Helper()
		_ = v.conns[0].SetReadDeadline(time.Now().Add(process.Hang))
		n, err := v.conns[0].Read(make([]byte, 4*smallRead+9))
		if err != nil || n != want {
			t.Fatalf("%s %d bytes are read at once, %v; want %d", what, n, err, want)
		}
	}
	call := frameOf(frameHeaders, endHeaders|endStream, 1, "block")
	long := frameOf(6, 0, 0, strings.Repeat("x", 4*smallRead))
	_, _ = io.WriteString(v.clients[0], preface+call+long)
	read("of a new client's", smallRead)
	_, _ = io.ReadFull(v.conns[0], make([]byte, len(preface+call+long)-smallRead))
	v.answer(0, 1<<10, frameOf(frameHeaders, endHeaders|endStream, 1, "0"))
	_, _ = io.WriteString(v.clients[0], long+long)
	read("after an answer", len(long))
	read("of frames that complete no request", smallRead)
	_, _ = io.ReadFull(v.conns[0], make([]byte, len(long)-smallRead))
	v.send(0, 1<<10, frameOf(frameHeaders, endHeaders|endStream, 5, "block"))
	_, _ = io.WriteString(v.clients[0], long)
	read("after a request", len(long))
	v.send(0, 1<<10, frameOf(frameHeaders, endHeaders, 7, "block")+frameOf(frameReset, 0, 7, "code"))
	_, _ = io.WriteString(v.clients[0], long)
	read("after a reset", smallRead)
}

// Attackers leave, and who is served stays.
func TestANewConnectionTakesThePlaceOfTheOneNotServedForLongest(t *testing.T) {
	v := open(t, 3)
	for range 3 {
		v.enter()
	}
	v.send(0, 100, preface+frameOf(frameHeaders, endHeaders|endStream, 1, "block"))
	v.answer(0, 100, frameOf(frameHeaders, endHeaders|endStream, 1, "0"))
	v.enter()
	v.enter()
	for i, want := range []bool{false, true, true, false, false} {
		if closed := v.closed(i); closed != want {
			t.Errorf("connection %d is closed: %v, want %v: 0 was served, 1 and 2 are older than those that took their places", i, closed, want)
		}
	}
	if n := strings.Count(v.log.String(), "level=WARN"); n != 1 || !strings.Contains(v.log.String(), "max_connections=3") {
		t.Errorf("the log has %d lines; want one, with the bound:\n%s", n, &v.log)
	}
	if v.Open() != 3 || v.Closed(Full) != 2 {
		t.Errorf("%d are open and %d were closed; want 3 and 2", v.Open(), v.Closed(Full))
	}
}

// The budget is the port's: who holds a share and gets few answers goes. Others stay, among them the busiest, whose calls
// hold as much: attackers cannot have weir close the connection of an Envoy.
func TestUnansweredCallsHoldNoMoreThanTheBudget(t *testing.T) {
	v := open(t, 0)
	for i := range 5 {
		v.enter()
		v.send(i, 64, preface+frameOf(frameHeaders, endHeaders, 1, "block"))
		// Attackers ask for something, too.
		v.conns[i].(*watch).conn.noteAnswer()
		v.serve(i)
	}
	busy := v.conns[4].(*watch)
	for range 10_000 {
		busy.conn.noteAnswer()
	}
	for range 64 { // it holds most
		_, _ = io.WriteString(v.clients[4], frameOf(frameData, 0, 1, strings.Repeat("x", 16<<10)))
	}
	process.Eventually(t, "the server has read what the busiest sent", func() error {
		if held := busy.conn.held.Load(); held < 64*perByte*16<<10 {
			return fmt.Errorf("it holds %d bytes", held)
		}
		return nil
	})
	for sent := 0; sent < 2*budget && v.Closed(Memory) == 0; sent += 4 * 16 << 10 {
		for _, client := range v.clients[1:] {
			_, _ = io.WriteString(client, frameOf(frameData, 0, 1, strings.Repeat("x", 16<<10)))
		}
	}
	process.Eventually(t, "a connection is closed, and let go of", func() error {
		if held := v.held.Load() + v.unreleased.Load(); v.Closed(Memory) == 0 || held > budget {
			return fmt.Errorf("%d are closed, and %d bytes held", v.Closed(Memory), held)
		}
		return nil
	})
	if v.closed(0) || v.closed(4) {
		t.Errorf("closed are the one that holds little: %v, and the busiest: %v; want neither", v.closed(0), v.closed(4))
	}
}

// Attackers who are closed come back, and are new each time. An Envoy whose calls weir had no time for holds more than any
// of them, and had its answers until then.
func TestAttackersWhoComeBackAreClosedBeforeWhoIsServed(t *testing.T) {
	v := open(t, 0)
	enter := func(holds int64) *conn {
		v.enter()
		v.serve(len(v.conns) - 1)
		conn := v.conns[len(v.conns)-1].(*watch).conn
		conn.hold(holds)
		return conn
	}
	served := enter(0)
	for range 25 {
		served.noteAnswer()
	}
	served.hold(150 * perWhole)
	for range 330 {
		enter(150 << 10)
	}
	if v.Closed(Memory) == 0 {
		t.Fatal("none is closed, so the test says nothing")
	}
	if v.closed(0) {
		t.Errorf("closed is who holds %d bytes and has 25 answers; want those who hold %d and have none", 150*perWhole, 150<<10)
	}
}

// Hundreds see at once that the budget is used up: each would close another connection, until none is left.
func TestNoneIsClosedOnceOthersMadeRoom(t *testing.T) {
	v := open(t, 0)
	v.enter()
	v.conns[0].(*watch).conn.hold(budget)
	v.freeMemory(budget)
	if v.Closed(Memory) > 0 {
		t.Error("a connection is closed for memory while no more than the budget is held")
	}
}

func TestWhoIsServedDoesNotWaitForConnectionsThatLeave(t *testing.T) {
	v := open(t, 0)
	for range 150 {
		v.enter()
	}
	served := v.conns[0].(*watch).conn
	for range 600 {
		served.noteAnswer()
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		v.unreleased.Add(budget)
		served.hold(150 * perWhole)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a client with 150 calls in flight and four times the answers of late waited %v; want no wait", waited)
		}
	})
}

// A client of /json that sends a body and waits holds it; one that was answered holds nothing.
func TestAnHTTPConnectionHoldsWhatItSentUntilItIsAnswered(t *testing.T) {
	v := open(t, 0)
	server := &http.Server{ConnState: v.State, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if v.held.Load() < 2<<20 {
			t.Errorf("beside a body of 1 MiB %d bytes are held; want twice that", v.held.Load())
		}
	})}
	defer server.Close()
	go func() { _ = server.Serve(v.Door) }()
	answer, err := http.Post("http://"+v.Addr().String(), "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	process.Eventually(t, "nothing is held", func() error {
		if v.held.Load() != 0 {
			return io.ErrNoProgress
		}
		return nil
	})
}
