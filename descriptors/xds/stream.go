package xds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
	// readInterval is how long the next response waits unread once one was answered: many servers answer a refusal (NACK)
	// at once with the same response, and one whose state flaps must not keep weir busy, nor fill its log.
	readInterval = time.Second
	// maxSilence is how long a stream may bring no response until the log says so.
	maxSilence = 10 * time.Second
	// maxRefusal bounds the error message of a refusal, in bytes: the server may log it once a second.
	maxRefusal = 4 << 10
)

// lastResponse is a hash of the last response, and the refusal of it, "" if it was accepted.
type lastResponse struct {
	sum     [sha256.Size]byte
	refusal string
}

// stream is a stream of a server, which ends with its context.
type stream = grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

// follow asks for the configuration and answers each response, until the stream breaks. It reports whether there was a
// response.
func (s *Source) follow(ctx context.Context, from stream, apply func(*descriptors.Config) error) (delivered bool, err error) {
	silence := time.AfterFunc(maxSilence, func() {
		s.config.Log.Warn("configuration server is silent: has it a configuration for this node?", "server", s.config.Server,
			"node", s.config.Node)
	})
	defer silence.Stop()
	request := &discovery.DiscoveryRequest{Node: s.node, TypeUrl: typeURL}
	version := "" // the last accepted one on this stream; another replica of the server may use the same version for another content
	for {
		if err := from.Send(request); err != nil && !errors.Is(err, io.EOF) { // then the next response has the reason
			return delivered, err
		}
		if delivered {
			if err := pause(ctx, readInterval); err != nil {
				return delivered, err
			}
		}
		response, err := receive(from)
		if err != nil {
			return delivered, err
		}
		silence.Stop()
		delivered = true
		request = &discovery.DiscoveryRequest{TypeUrl: typeURL, ResponseNonce: response.GetNonce()}
		if refusal := s.update(response, apply); refusal == "" {
			version = response.GetVersionInfo()
		} else {
			request.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: refusal}
		}
		request.VersionInfo = version
	}
}

// receive returns the next response of the type that was asked for.
func receive(from stream) (*discovery.DiscoveryResponse, error) {
	for {
		response, err := from.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the server has ended the stream")
		}
		if err != nil || response.GetTypeUrl() == typeURL {
			return response, err
		}
	}
}

// update puts the valid part of a response in force. It returns the errors in it, for the server; "" for none. A response
// like the last one, which servers send on each new stream and after each rejection, changes nothing and is not logged.
func (s *Source) update(r *discovery.DiscoveryResponse, apply func(*descriptors.Config) error) (refusal string) {
	sum := hashResponse(r)
	if s.last.sum == sum {
		return s.last.refusal
	}
	files, problems := filesOf(r.GetResources())
	u := s.loader.LastGood.Update(files, problems)
	log := s.config.Log.With("server", s.config.Server, "version", descriptors.Abbreviate(r.GetVersionInfo()))
	if errs := s.loader.Apply(u, apply, log, "resources", len(files)); len(errs) > 0 {
		refusal = refusalOf(errs)
	}
	if u.Config == nil || s.loader.LastGood == u.LastGood { // else apply refused it, and may take it the next time
		s.last = lastResponse{sum, refusal}
	}
	return refusal
}

// hashResponse returns a hash of a response's version and resources, in whatever order they are.
func hashResponse(r *discovery.DiscoveryResponse) [sha256.Size]byte {
	var sums []string
	for _, resource := range r.GetResources() {
		sum := sha256.Sum256(resource.GetValue())
		sums = append(sums, string(sum[:])+resource.GetTypeUrl())
	}
	slices.Sort(sums)
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", r.GetVersionInfo(), sums))
}

// refusalOf returns errors one a line, cut to what a server is told. It is valid UTF-8, as a message has to be.
func refusalOf(errs []error) string {
	text := strings.ToValidUTF8(errors.Join(errs...).Error(), "?")
	return string(descriptors.AppendCut(nil, []byte(text), maxRefusal))
}
