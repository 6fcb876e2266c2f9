package redistest

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// link is one connection through a proxy.
type link struct {
	proxy  *FaultProxy
	client *net.TCPConn
	redis  net.Conn
	gone   chan struct{} // closed when it ends
	once   sync.Once

	// Guarded by proxy.mu.
	scanner scanner
	mute    [2]bool // the direction has lost bytes
	sprung  *trap   // its action waits for the reply
}

// chunk is data on its way.
type chunk struct {
	data []byte
	due  time.Time
	last bool // the sender has closed after it
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

// pump reads one direction. What it reads goes through a queue, so that a delay holds back nothing else.
func (l *link) pump(dir Direction, from, to net.Conn) {
	queue := make(chan chunk, 1024)
	var writer sync.WaitGroup
	writer.Go(func() { l.write(queue, to) })
	defer writer.Wait()
	defer close(queue)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		next := l.judge(dir, buffer[:n], err != nil)
		select {
		case queue <- next:
		case <-l.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// write sends each chunk when it is due.
func (l *link) write(queue <-chan chunk, to net.Conn) {
	for c := range queue {
		select {
		case <-time.After(time.Until(c.due)):
		case <-l.gone:
			return
		}
		if _, err := to.Write(c.data); err != nil || c.last {
			l.end(hangUp)
			return
		}
	}
}

// judge applies the faults of this moment to data, the last one or not, and gives what is to be forwarded.
func (l *link) judge(dir Direction, data []byte, last bool) chunk {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir == Requests {
		l.judgeRequests(data)
	} else {
		l.judgeReplies(len(data))
	}
	c := chunk{due: time.Now().Add(p.faults.delay[dir])}
	if p.faults.drop[dir] && len(data) > 0 {
		l.mute[dir] = true
	}
	if !l.mute[dir] {
		c.data, c.last = slices.Clone(data), last && !p.faults.drop[dir] // where bytes are lost, the end is lost too
		for i := range c.data {
			if dir == Replies && p.faults.spoil > 0 && rand.N(p.faults.spoil) == 0 {
				c.data[i] = 0xff
			}
		}
	}
	return c
}

// judgeRequests springs traps.
func (l *link) judgeRequests(data []byte) {
	p := l.proxy
	commands := l.scanner.scan(data)
	for _, command := range commands {
		p.requests[command]++
	}
	if l.mute[Requests] || l.sprung != nil {
		return // Redis hears nothing, or its answer has been decided about
	}
	t, sprung := p.faults.spring(commands, l.scanner.opaque)
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
