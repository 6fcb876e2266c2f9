package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// askInterval is how often sentinels are asked for the primary, askGap how often at most while servers fail, and
// askTimeout how long each may take to answer.
const askInterval, askGap, askTimeout = 500 * time.Millisecond, 100 * time.Millisecond, time.Second

// primary is a primary that sentinels name. Each one that they name has a client of its own, which is closed when they
// name another: a loss, as replicas lack what came last.
type primary struct {
	*options
	name, label string            // for sentinels; for people
	sentinels   []*goredis.Client // the one that answered last goes first; the watcher's
	asked       chan struct{}     // has a token if they are to be asked at once

	stop    context.CancelFunc
	watched sync.WaitGroup

	addr    string                         // the watcher's
	current atomic.Pointer[goredis.Client] // nil before the first answer
	why     atomic.Pointer[error]          // why there is none
}

func newSentinel(url string, o *options) (Topology, error) {
	name, targets, err := parseSentinel(url)
	if err != nil {
		return nil, err
	}
	user, password := splitAuth(o.SentinelAuth)
	var addrs []string
	for _, t := range targets {
		if t.password != "" {
			user, password = t.user, t.password
		}
		addrs = append(addrs, t.addr)
	}
	p := &primary{options: o, name: name, asked: make(chan struct{}, 1),
		label: fmt.Sprintf("%s (sentinels %s)", name, strings.Join(addrs, ", "))}
	p.why.Store(&ErrUnknown)
	theirs := *o
	theirs.login = &login{user: user, password: password}
	for _, addr := range addrs {
		p.sentinels = append(p.sentinels, goredis.NewClient(theirs.client(target{network: "tcp", addr: addr})))
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.watched.Go(func() { p.watch(ctx) })
	return p, nil
}

// watch follows what the sentinels say.
func (p *primary) watch(ctx context.Context) {
	for ctx.Err() == nil {
		p.ask(ctx)
		gap, next := time.After(askGap), time.After(askInterval)
		select {
		case <-next:
		case <-p.asked:
		case <-ctx.Done():
		}
		select {
		case <-gap:
		case <-ctx.Done():
		}
	}
}

// ask asks one sentinel after the other until one names the primary.
func (p *primary) ask(ctx context.Context) {
	var failed error
	for i, s := range p.sentinels {
		addr, err := p.askOne(ctx, s)
		if err == nil {
			p.sentinels[0], p.sentinels[i] = s, p.sentinels[0]
			p.lead(addr)
			return
		}
		failed = errors.Join(failed, fmt.Errorf("sentinel %s: %w", s.Options().Addr, err))
	}
	failed = fmt.Errorf("%w: %w", ErrUnknown, failed)
	p.why.Store(&failed)
}

func (p *primary) askOne(ctx context.Context, sentinel *goredis.Client) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	words := goredis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", p.name)
	switch err = sentinel.Process(ctx, words); {
	case errors.Is(err, goredis.Nil):
		return "", errors.New("it knows no primary of that name: correct the part of the URL before the first comma")
	case err != nil:
		return "", err
	case len(words.Val()) != 2:
		return "", errors.New("it does not answer with an address and a port: see what listens there")
	}
	return net.JoinHostPort(words.Val()[0], words.Val()[1]), nil
}

// lead makes the server at an address the primary, unless it is.
func (p *primary) lead(addr string) {
	if p.addr == addr {
		return
	}
	p.addr = addr
	if old := p.current.Swap(goredis.NewClient(p.client(target{network: "tcp", addr: addr}))); old != nil {
		p.losses.note(p.label, time.Now())
		_ = old.Close() // what is under way has no answer
	}
}

// Reload has the sentinels asked at once.
func (p *primary) Reload() {
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

func (p *primary) Owner([]byte) (*goredis.Client, error) {
	if client := p.current.Load(); client != nil {
		return client, nil
	}
	return nil, *p.why.Load()
}

func (p *primary) describe(client *goredis.Client) Server {
	return Server{Name: p.label, Client: client, Tag: probeTag(0), login: p.login}
}

func (p *primary) Servers(context.Context) ([]Server, error) {
	client, err := p.Owner(nil)
	if err != nil {
		return nil, err
	}
	return []Server{p.describe(client)}, nil
}

func (p *primary) Close() error {
	p.stop()
	p.watched.Wait()
	var err error
	if client := p.current.Load(); client != nil {
		err = client.Close()
	}
	for _, s := range p.sentinels {
		err = errors.Join(err, s.Close())
	}
	return err
}
