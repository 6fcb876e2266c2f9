package rls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// MaxRequest is the largest request, in bytes, that rules decide. A larger one, up to MaxMessage, is answered as too
// large: an error would let it pass where Envoy's failure_mode_deny is off. Envoy's default limit of 60 KiB of headers
// makes larger requests only if one header yields 280 entries. Parsing JSON takes memory of some sixty times the
// request's size, so maxJSON limits the size, and maxJSONReaders the concurrency.
const (
	MaxRequest     = 1 << 20
	MaxMessage     = 16 << 20
	cutBytes       = 4 << 10 // how much of a request above MaxRequest is read: it begins with the domain
	maxJSON        = 64 << 10
	maxJSONReaders = 4
)

// ServeHTTP answers a RateLimitRequest in JSON with a RateLimitResponse: 200 if the request may pass, 429 if not, 400
// if it is invalid, 503 if there is no verdict.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		http.Error(w, "the request is longer than 64 KiB", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	in := s.calls.Get().(*inboundCall)
	defer s.release(in)
	in.json = true
	var out *reply
	if err = s.parseJSON(r.Context(), body, in); err == nil {
		out, err = s.answer(r.Context(), in)
	}
	if err != nil {
		httpStatus := http.StatusBadRequest
		if status.Code(err) == codes.Unavailable || r.Context().Err() != nil { // the request of a client that left is not bad
			httpStatus = http.StatusServiceUnavailable
		}
		http.Error(w, status.Convert(err).Message(), httpStatus)
		return
	}
	writeJSON(w, out.encoded)
}

// parseJSON parses a request in JSON. It first waits until fewer than maxJSONReaders do so, or until ctx ends.
func (s *Service) parseJSON(ctx context.Context, body []byte, in *inboundCall) error {
	select {
	case s.jsonReaders <- struct{}{}:
		defer func() { <-s.jsonReaders }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var request ratelimit.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		return fmt.Errorf("the body is not a RateLimitRequest in JSON: %w", err)
	}
	message, err := proto.Marshal(&request)
	in.message = string(message)
	return err
}

func writeJSON(w http.ResponseWriter, out []byte) {
	var response ratelimit.RateLimitResponse
	err := proto.Unmarshal(out, &response)
	var text []byte
	if err == nil {
		text, err = protojson.Marshal(&response)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // the client is gone if this fails
}
