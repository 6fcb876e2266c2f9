package topology

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// Whatever a server says, it costs little memory, and its connection is not used again.
func TestDamagedReplyEndsTheConnectionCheaply(t *testing.T) {
	const most = 4 * maxText // bytes that are allocated, in all
	for name, reply := range map[string]string{
		"a map of 99,999,999":      "%99999999\r\n",
		"an array of 999,999,999":  "*999999999\r\n",
		"arrays in arrays":         strings.Repeat("*100000\r\n", 1000),
		"an array in each":         strings.Repeat("*1\r\n", 1_000_000),
		"an attribute of each":     strings.Repeat("|0\r\n", 1_000_000),
		"a string of a gigabyte":   "$1000000000\r\n",
		"a number without end":     "$" + strings.Repeat("9", 1000) + "\r\n",
		"a line of 20 MB":          "+" + strings.Repeat("x", 20_000_000),
		"an error of 20 MB":        "-ERR " + strings.Repeat("x", 20_000_000),
		"what no Redis says":       "HTTP/1.1 400 Bad Request\r\n",
		"one reply, and then that": "*2\r\n$1\r\na\r\n$1\r\nb\r\n\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			addr, closed := damagedServer(t, reply)
			on, _ := openTopology(t, Config{URL: addr, Timeout: time.Minute})
			client, _ := on.Owner(nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := client.Do(t.Context(), "get", "key").Err()
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), errDamaged.Error()) {
				t.Errorf("%v; want to be told that the reply is damaged", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("it allocated %d MB, want %d at most", got>>20, most>>20)
			}
			select {
			case <-closed:
			case <-time.After(process.Hang):
				t.Error("the connection is still open")
			}
		})
	}
}

// damagedServer greets, and then gives one reply to whatever it is asked. The channel is closed when the other side has
// hung up.
func damagedServer(t *testing.T, reply string) (addr string, closed chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	closed = make(chan struct{})
	go func() {
		defer close(closed)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 4096)
		if _, err := conn.Read(buffer); err == nil { // HELLO
			_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
		}
		if _, err := conn.Read(buffer); err == nil {
			_, _ = io.WriteString(conn, reply)
		}
		_, _ = io.Copy(io.Discard, conn)
	}()
	return listener.Addr().String(), closed
}

// What servers say passes, however it is cut.
func TestFragmentedRepliesPass(t *testing.T) {
	text := func(n int) string { return fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("\n", n)) }
	var slots strings.Builder // a cluster's map, each slot by itself
	for i := range 16_384 {
		fmt.Fprintf(&slots, "*3\r\n:%d\r\n:%d\r\n*4\r\n$0\r\n\r\n:7000\r\n$1\r\nx\r\n*0\r\n", i, i)
	}
	for name, reply := range map[string]string{
		"RESP2": "+OK\r\n-ERR no\r\n:-12\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n" + "*3\r\n*2\r\n:1\r\n$-1\r\n*-1\r\n+a\r\n" + text(12),
		"RESP3": "_\r\n,-1.5\r\n#t\r\n(-123\r\n!4\r\nERR \r\n=7\r\ntxt:abc\r\n%2\r\n+a\r\n~1\r\n:1\r\n+b\r\n*1\r\n_\r\n" +
			">2\r\n+message\r\n$1\r\nx\r\n|1\r\n+a\r\n+b\r\n*2\r\n|1\r\n+k\r\n%0\r\n:1\r\n:2\r\n",
		"a string of a megabyte":     text(1_000_000),
		"an array of 100,000":        "*100000\r\n" + strings.Repeat("$1\r\n1\r\n", 100_000),
		"a map of 100,000":           "%100000\r\n" + strings.Repeat(":1\r\n+x\r\n", 100_000),
		"one reply after the other":  strings.Repeat("*2\r\n*1\r\n+a\r\n%1\r\n+b\r\n+c\r\n", 100_000),
		"the map of a large cluster": "*16384\r\n" + slots.String(),
	} {
		for cut := 0; cut <= len(reply); cut += 1 + len(reply)/1000*50 {
			var r replyScanner
			if err := r.scan([]byte(reply[:cut])); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := r.scan([]byte(reply[cut:])); err != nil {
				t.Fatalf("%s, cut after %d bytes: %v", name, cut, err)
			}
			if r.line != 0 || r.text != 0 || r.elements != 0 {
				t.Fatalf("%s, cut after %d bytes: something is still to come: %+v", name, cut, r)
			}
		}
	}
}
