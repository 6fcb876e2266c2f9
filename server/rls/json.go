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

// MaxRequest is the largest request, in bytes, that its rules decide; up to MaxMessage it is answered as too large,
// because an error would let it pass where Envoy's failure_mode_deny is off. With its default of 60 KiB of headers,
// Envoy makes larger requests only if one header yields 280 entries. Parsing JSON takes some sixty times the memory of
// the request, so maxJSON bounds the size, and readers the concurrency.
const (
	MaxRequest = 1 << 20
	MaxMessage = 16 << 20
	cutTo      = 4 << 10 // bytes read of a longer message: the domain comes first
	maxJSON    = 64 << 10
	readers    = 4
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
	in := s.calls.Get().(*inbound)
	defer s.release(in)
	in.json = true
	var out *reply
	if err = s.read(r.Context(), body, in); err == nil {
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

// read parses a request in JSON, once a reader is free and unless its client leaves before.
func (s *Service) read(ctx context.Context, body []byte, in *inbound) error {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
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
