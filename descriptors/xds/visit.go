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
	// refusalPause is the least time between two refusals on a stream. Many servers answer a refusal at once with what
	// they have, which is the same again.
	refusalPause = time.Second
	// silence is how long a stream may bring nothing until the log says what could be the reason.
	silence = 10 * time.Second
)

// visit is one stream of a source.
type visit struct {
	source *Source
	stream grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]
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
func (v *visit) follow(ctx context.Context) (delivered bool, err error) {
	if err := v.send(&discovery.DiscoveryRequest{Node: v.source.node}); err != nil {
		return false, err
	}
	incoming := make(chan received)
	go v.receive(ctx, incoming)
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	var due <-chan time.Time // when refusal is sent
	var refusal *discovery.DiscoveryRequest
	var refusable time.Time // when the next one may be sent
	for {
		select {
		case <-ctx.Done():
			return delivered, ctx.Err()
		case <-quiet.C:
			v.source.config.Log.Warn("configuration server is silent: has it a configuration for this node?",
				"server", v.source.config.Server, "node", v.source.config.Node)
		case r := <-incoming:
			if r.err != nil {
				return delivered, r.err
			}
			if r.response.GetTypeUrl() != typeURL {
				v.source.config.Log.Debug("configuration server sends what nobody asked for", "type", r.response.GetTypeUrl())
				continue
			}
			quiet.Stop()
			delivered, due, refusal = true, nil, nil
			answer := v.answer(r.response)
			if answer.GetErrorDetail() != nil {
				refusal, due = answer, time.After(time.Until(refusable))
			} else if err := v.send(answer); err != nil {
				return delivered, err
			}
		case <-due:
			refusable, due = time.Now().Add(refusalPause), nil
			if err := v.send(refusal); err != nil {
				return delivered, err
			}
		}
	}
}

// receive hands on what comes, until the stream or ctx ends.
func (v *visit) receive(ctx context.Context, to chan<- received) {
	for {
		response, err := v.stream.Recv()
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
func (v *visit) send(r *discovery.DiscoveryRequest) error {
	r.TypeUrl = typeURL
	if err := v.stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// answer puts a response in force as far as that is possible. It returns the request that says so.
func (v *visit) answer(r *discovery.DiscoveryResponse) *discovery.DiscoveryRequest {
	wrong := v.source.take(r, v.apply)
	if wrong == "" {
		v.version = r.GetVersionInfo()
	}
	request := &discovery.DiscoveryRequest{VersionInfo: v.version, ResponseNonce: r.GetNonce()}
	if wrong != "" {
		request.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: wrong}
	}
	return request
}
