package xds

import (
	"context"
	"errors"
	"io"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/weirproxy/weir/descriptors"
)

// typeURL is the only type of resources that is asked for.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

const (
	// rejectInterval is the least time between two rejections (NACKs) on a stream. Many servers answer one at once with
	// what they have, which is the same again.
	rejectInterval = time.Second
	// silence is how long a stream may bring nothing until the log says so.
	silence = 10 * time.Second
)

// stream is one stream of a source.
type stream struct {
	source *Source
	client grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]
	apply  func(*descriptors.Config) error

	version string // that was last accepted on this stream; another replica of the server may use it for something else
}

// received is what comes out of a stream: a response, or why there are no more.
type received struct {
	response *discovery.DiscoveryResponse
	err      error
}

// follow asks for the configuration and answers each response, until the stream breaks. It reports whether there was a
// response. All of what it starts has ended once ctx and the stream have.
func (s *stream) follow(ctx context.Context) (delivered bool, err error) {
	if err := s.send(&discovery.DiscoveryRequest{Node: s.source.node}); err != nil {
		return false, err
	}
	incoming := make(chan received)
	go s.receive(ctx, incoming)
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	var due <-chan time.Time // when rejection is sent
	var rejection *discovery.DiscoveryRequest
	var earliest time.Time // when the next one may be sent
	for {
		select {
		case <-ctx.Done():
			return delivered, ctx.Err()
		case <-quiet.C:
			s.source.config.Log.Warn("configuration server is silent: has it a configuration for this node?",
				"server", s.source.config.Server, "node", s.source.config.Node)
		case r := <-incoming:
			if r.err != nil {
				return delivered, r.err
			}
			if r.response.GetTypeUrl() != typeURL {
				s.source.config.Log.Debug("the configuration server sends resources of another type", "type", r.response.GetTypeUrl())
				continue
			}
			quiet.Stop()
			delivered, due, rejection = true, nil, nil
			answer := s.answer(r.response)
			if answer.GetErrorDetail() != nil {
				rejection, due = answer, time.After(time.Until(earliest))
			} else if err := s.send(answer); err != nil {
				return delivered, err
			}
		case <-due:
			earliest, due = time.Now().Add(rejectInterval), nil
			if err := s.send(rejection); err != nil {
				return delivered, err
			}
		}
	}
}

// receive hands on what comes, until the stream or ctx ends.
func (s *stream) receive(ctx context.Context, to chan<- received) {
	for {
		response, err := s.client.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the server has ended the stream")
		}
		select {
		case to <- received{response, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// send sends a request for all resources of the type. What broke the stream is left to receive to find out.
func (s *stream) send(r *discovery.DiscoveryRequest) error {
	r.TypeUrl = typeURL
	if err := s.client.Send(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// answer puts a response in force as far as that is possible. It returns the request that says so.
func (s *stream) answer(r *discovery.DiscoveryResponse) *discovery.DiscoveryRequest {
	wrong := s.source.update(r, s.apply)
	if wrong == "" {
		s.version = r.GetVersionInfo()
	}
	request := &discovery.DiscoveryRequest{VersionInfo: s.version, ResponseNonce: r.GetNonce()}
	if wrong != "" {
		request.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: wrong}
	}
	return request
}
