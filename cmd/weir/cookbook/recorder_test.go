package cookbook_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// recorder stands between Envoy and weir. It passes every question on, and keeps the descriptors of each domain's.
type recorder struct {
	rlspb.UnimplementedRateLimitServiceServer
	weir  *weirtest.Client
	asked map[string]chan string // by domain: the descriptors of a question that weir has answered
}

// startRecorder returns a recorder of the domains, and its port.
func startRecorder(t *testing.T, weir string, domains []string) (*recorder, int) {
	t.Helper()
	r := &recorder{weir: weirtest.Dial(t, weir), asked: make(map[string]chan string)}
	for _, d := range domains {
		r.asked[d] = make(chan string, 100)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(server, r)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return r, listener.Addr().(*net.TCPAddr).Port
}

// ShouldRateLimit asks weir without Envoy's deadline, which a busy machine might miss.
func (r *recorder) ShouldRateLimit(_ context.Context, in *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	out, err := r.weir.Forward(in)
	select {
	case r.asked[in.GetDomain()] <- show(in.GetDescriptors()):
	default: // nobody reads: a recipe that failed already
	}
	return out, err
}

// play sends the requests of a transcript to an address, and returns it as it really is.
func (r *recorder) play(t *testing.T, domain, addr, transcript string) string {
	t.Helper()
	var lines []line
	for text := range strings.Lines(transcript) {
		q, err := readQuestion(text)
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.ask(domain, addr, q)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return writeLines(lines)
}

// show writes descriptors as the documents do: user=ann + user=ann,path=/pay (2 hits).
func show(descriptors []*descriptorpb.RateLimitDescriptor) string {
	var all []string
	for _, d := range descriptors {
		var entries []string
		for _, e := range d.GetEntries() {
			entries = append(entries, e.GetKey()+"="+shorten(e.GetValue()))
		}
		text := strings.Join(entries, ",")
		if hits := d.GetHitsAddend(); hits != nil {
			text += fmt.Sprintf(" (%d hits)", hits.GetValue())
		}
		if own := d.GetLimit(); own != nil {
			text += fmt.Sprintf(" (own limit %d/%s)", own.GetRequestsPerUnit(), strings.ToLower(own.GetUnit().String()))
		}
		all = append(all, text)
	}
	return strings.Join(all, " + ")
}
