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

// typeURL is the type of the requested resources.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

const (
	// readInterval is the pause before the next response is read. Many servers answer a NACK at once with the same
	// response, and a server whose state flaps must not keep weir busy or fill its log.
	readInterval = time.Second
	// maxSilence is how long a stream may be without a response before that is logged.
	maxSilence = 10 * time.Second
	// maxRefusal bounds the error message of a NACK, in bytes, as the server may log it once a second.
	maxRefusal = 4 << 10
)

// lastResponse has a hash of the last response, and the error message of its NACK, "" if it was accepted.
type lastResponse struct {
	sum     [sha256.Size]byte
	refusal string
}

// stream is a stream to a server. It ends with its context.
type stream = grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

// handleStream requests the configuration, and applies and answers each response, until the stream ends. It reports
// whether there was a response.
func (s *Source) handleStream(ctx context.Context, from stream, apply func(*descriptors.Config) error) (delivered bool, err error) {
	silence := time.AfterFunc(maxSilence, func() {
		s.config.Log.Warn("configuration server is silent: has it a configuration for this node?", "server", s.config.Server,
			"node", s.config.Node)
	})
	defer silence.Stop()
	request := &discovery.DiscoveryRequest{Node: s.node, TypeUrl: typeURL}
	version := "" // last accepted version on this stream; other replicas of the server may use it for another content
	for {
		if err := from.Send(request); err != nil && !errors.Is(err, io.EOF) { // after io.EOF, Recv returns the reason
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

// receive returns the next response of the requested type.
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

// update applies the valid part of a response. It returns the errors for the server; "" for none. A response that
// equals the last one, which servers send on each new stream and after each NACK, changes nothing and is not logged.
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
	if u.Config == nil || s.loader.LastGood == u.LastGood { // else apply rejected it, and may accept it the next time
		s.last = lastResponse{sum, refusal}
	}
	return refusal
}

// hashResponse returns a hash of a response's version and resources, which does not depend on their order.
func hashResponse(r *discovery.DiscoveryResponse) [sha256.Size]byte {
	var sums []string
	for _, resource := range r.GetResources() {
		sum := sha256.Sum256(resource.GetValue())
		sums = append(sums, string(sum[:])+resource.GetTypeUrl())
	}
	slices.Sort(sums)
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", r.GetVersionInfo(), sums))
}

// refusalOf returns errors, one on each line, cut to maxRefusal and as valid UTF-8.
func refusalOf(errs []error) string {
	text := strings.ToValidUTF8(errors.Join(errs...).Error(), "?")
	return string(descriptors.AppendCut(nil, []byte(text), maxRefusal))
}
