package pipeline

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Request is a request to the server that owns a key, mostly a check.
type Request = outbound.Request[RequestState]

// RequestState is the state of a request in a pipeline.
type RequestState struct {
	topology.Destination
	Route Route
	class Class
	err   error // why there is no answer

	// For the Codec:

	Payload    Blob     // the check, encoded
	Command    *Command // the command that carries the request now; nil if nothing was sent
	Counted    bool     // it has its answer; further commands are sent even if its caller has left
	CodecState any      // for the codec alone

	// For a call of a script:

	index int // among the requests of the command
	reply string
}

// written reports whether the server may have seen the request.
func (q *RequestState) written() bool { return q.Counted || q.Command != nil && q.Command.Written }

// engineCodec makes a pipeline an outbound.Codec.
type engineCodec struct{ *Pipeline }

func (p engineCodec) Encode(text []byte, c *backend.Check, r *Request) ([]byte, *outbound.Queue[RequestState], error) {
	r.State = RequestState{}
	text = p.codec.Encode(text, c, r)
	one, err := p.owner(r.State.Key)
	if err != nil {
		p.health.report(false)
		return text, nil, err
	}
	return text, one.server.Queues[0], nil
}

func (p engineCodec) Decode(r *Request, c *backend.Check) (backend.Decision, error) {
	return p.codec.Decode(r, c)
}

// Reopen returns a new queue in place of one that was idle.
func (p engineCodec) Reopen(closed *outbound.Queue[RequestState]) (*outbound.Queue[RequestState], error) {
	one, err := p.peer(closed.PeerState.(*goredis.Client))
	if err != nil {
		return nil, err
	}
	return one.server.Queues[0], nil
}

func (engineCodec) ReasonOf(cause error) backend.Reason { return Classify(cause, true).Reason }

// peer is one Redis server.
type peer struct {
	pipeline *Pipeline
	client   *goredis.Client
	server   *outbound.Server[RequestState]
	meter    Meter
}

func newPeer(p *Pipeline, client *goredis.Client) *peer {
	one := &peer{pipeline: p, client: client}
	// A batch that waits for a connection cannot take requests that arrive meanwhile, so no more batches than connections.
	one.server = p.engine.Open(p.servers.NameOf(client), one, 1, min(maxOut, client.Options().PoolSize))
	one.server.Queues[0].PeerState = client
	if p.meter != nil {
		one.meter = p.meter(one.server.Name)
	}
	return one
}

func (p *peer) stats() ServerStats {
	out, waiting, away := p.server.Load()
	return ServerStats{Name: p.server.Name, Out: out, Waiting: waiting, Away: away,
		Foreign: p.pipeline.script.lastMode(p.client).Foreign}
}

// Changed is called after each change of the breaker's state.
func (p *peer) Changed(before, after outbound.State, _ error) {
	if before == outbound.Closed {
		p.pipeline.servers.AddLoss()
	}
	if after == outbound.Open {
		p.pipeline.health.report(false)
	}
}

// Pings starts a series of PINGs on a separate connection.
func (p *peer) Pings() (ping func(context.Context) (outbound.Outcome, error), end func()) {
	s := &pings{peer: p}
	return s.ping, s.end
}

// pings is a series of PINGs.
type pings struct {
	*peer
	conn *goredis.Client // nil without a connection
}

// ping sends PING, on a new connection if there is none. Its error means that there is no connection, no reply in time,
// or that the server is not ready to count; any other reply is as good as PONG.
func (s *pings) ping(ctx context.Context) (o outbound.Outcome, err error) {
	o = outbound.Answered
	if s.conn == nil {
		s.conn = topology.NewPingClient(s.client, outbound.DialTimeout)
		o, err = s.send(ctx, outbound.DialTimeout)
	}
	if o == outbound.Answered {
		o, err = s.send(ctx, outbound.PingTimeout)
	}
	if o != outbound.Answered && ctx.Err() == nil {
		s.pipeline.servers.Reload()
		if topology.Closed(s.client) {
			s.pipeline.retire(time.Now())
		}
	}
	return o, err
}

func (s *pings) send(ctx context.Context, timeout time.Duration) (outbound.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := s.conn
	defer context.AfterFunc(ctx, func() { _ = client.Close() })() // ends a read of go-redis
	err := client.Ping(ctx).Err()
	switch o := Classify(err, true).Outcome; o {
	case outbound.Answered:
		return o, nil
	case outbound.Loading:
		return o, err
	}
	s.end()
	return outbound.Lost, err
}

// end closes the connection.
func (s *pings) end() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// disconnect closes the connections, which lead to a replica: new ones may lead to the primary.
func (p *peer) disconnect() {
	ctx, cancel := context.WithTimeout(p.server.Context(), outbound.PingTimeout)
	defer cancel()
	topology.Disconnect(ctx, p.client)
}
