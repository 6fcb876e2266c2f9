package redistest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// link is one connection through a proxy.
type link struct {
	proxy  *FaultProxy
	client *net.TCPConn
	redis  net.Conn
	gone   chan struct{} // closed when it ends
	once   sync.Once

	// Guarded by proxy.mu.
	mute   [2]bool // the direction has lost bytes
	sprung *trap   // its action waits for the reply
}

// run forwards until the link ends.
func (l *link) run() {
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(Requests, l.client, l.redis) })
	pumps.Go(func() { l.pump(Replies, l.redis, l.client) })
	<-l.gone
	pumps.Wait()
}

// end closes both sides, the client's in the given way.
func (l *link) end(how func(net.Conn)) {
	l.once.Do(func() {
		close(l.gone)
		how(l.client)
		hangUp(l.redis)
	})
}

// pump forwards one direction.
func (l *link) pump(dir Direction, from, to net.Conn) {
	in, buffer := bufio.NewReaderSize(from, 64<<10), make([]byte, 64<<10)
	for {
		var data []byte
		var commands []string
		var err error
		if dir == Requests {
			commands, data, err = readCommands(in)
		} else {
			var n int
			n, err = in.Read(buffer)
			data = buffer[:n]
		}
		data, lost := l.judge(dir, data, commands)
		if _, failed := to.Write(data); failed != nil || err != nil && !lost {
			l.end(hangUp)
		}
		if err != nil {
			return
		}
	}
}

// judge applies the faults of this moment to data. It returns what is to be forwarded, and whether the end of a
// direction would be lost, too.
func (l *link) judge(dir Direction, data []byte, commands []string) (forwarded []byte, lost bool) {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir == Requests {
		l.judgeRequests(commands)
	} else {
		l.judgeReplies(len(data))
	}
	if p.faults.drop[dir] && len(data) > 0 {
		l.mute[dir] = true
	}
	if l.mute[dir] {
		return nil, true
	}
	for i := range data {
		if dir == Replies && p.faults.spoil > 0 && rand.N(p.faults.spoil) == 0 {
			data[i] = 0xff
		}
	}
	return data, p.faults.drop[dir]
}

// judgeRequests springs traps.
func (l *link) judgeRequests(commands []string) {
	p := l.proxy
	if l.mute[Requests] || l.sprung != nil {
		return // Redis hears nothing, or its answer has been decided about
	}
	t, sprung := p.faults.spring(commands)
	if !sprung {
		return
	}
	switch t.action {
	case ResetBefore:
		l.refuse(reset)
		close(t.sprung)
	case CloseBefore:
		l.refuse(hangUp)
		close(t.sprung)
	default:
		l.sprung = &t
	}
}

// refuse ends the link without forwarding.
func (l *link) refuse(how func(net.Conn)) {
	l.mute[Requests] = true
	l.end(how)
}

// judgeReplies lets a trap act that has waited for Redis to execute its request.
func (l *link) judgeReplies(n int) {
	if n == 0 || l.sprung == nil || l.mute[Replies] {
		return
	}
	l.mute[Replies] = true
	switch l.sprung.action {
	case ResetAfter:
		l.end(reset)
	case CloseAfter:
		l.end(hangUp)
	}
	close(l.sprung.sprung)
}

// readCommands reads what has arrived of commands, one at least, and returns their names, in capitals, and their bytes.
//
// Of memcached's text protocol it takes what has arrived for one request, of the name of its first command.
func readCommands(in *bufio.Reader) (names []string, data []byte, err error) {
	if first, err := in.Peek(1); err != nil || first[0] != '*' {
		data, _ = in.Peek(in.Buffered())
		data = slices.Clone(data)
		_, _ = in.Discard(len(data))
		name, _, _ := strings.Cut(string(data), " ")
		return []string{strings.ToUpper(name)}, data, err
	}
	for len(names) == 0 || in.Buffered() > 0 {
		command, raw, err := readCommand(in)
		if err != nil {
			return names, data, err
		}
		names, data = append(names, strings.ToUpper(command[0])), append(data, raw...)
	}
	return names, data, nil
}

// readCommand reads a command, an array of strings, and returns its bytes, too.
func readCommand(in *bufio.Reader) (words []string, raw []byte, err error) {
	header := func(kind byte) (n int) {
		var line []byte
		if line, err = in.ReadBytes('\n'); err == nil {
			raw = append(raw, line...)
			n, err = strconv.Atoi(strings.TrimSpace(string(line[1:])))
			if line[0] != kind || n < 0 || n == 0 && kind == '*' {
				err = fmt.Errorf("%q is not of a command", line)
			}
		}
		return n
	}
	for left := header('*'); err == nil && left > 0; left-- {
		size := header('$')
		if err != nil {
			break
		}
		text := make([]byte, size+len("\r\n"))
		_, err = io.ReadFull(in, text)
		words, raw = append(words, string(text[:size])), append(raw, text...)
	}
	return words, raw, err
}
