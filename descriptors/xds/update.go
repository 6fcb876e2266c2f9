package xds

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weirproxy/weir/descriptors"
)

// maxRefusal bounds the error message of a rejection, in bytes: the server may log it once a second.
const maxRefusal = 4 << 10

// answered is the last response, and what was wrong with it.
type answered struct {
	sum   [sha256.Size]byte
	wrong string
}

// update puts the valid part of a response in force. It returns the errors in it, for the server; "" for none. A response
// like the last one, which servers send on each new stream and after each rejection, changes nothing and is not logged.
func (s *Source) update(r *discovery.DiscoveryResponse, apply func(*descriptors.Config) error) (wrong string) {
	sum := sumOf(r)
	if s.last.sum == sum {
		return s.last.wrong
	}
	files, unreadable, problems := read(r.GetResources())
	u := s.loader.LastGood.Update(files, unreadable)
	u.Problems = append(problems, u.Problems...)
	if i := slices.Index(u.Unknown, everything); i >= 0 {
		u.Unknown[i] = nameless
	}
	log := s.responses.Logger(s.config.Log, maxLogged)
	log = log.With("server", s.config.Server, "version", descriptors.Shown(r.GetVersionInfo()))
	if errs := s.loader.Apply(u, apply, log, "resources", len(files)); len(errs) > 0 {
		wrong = listed(errs)
	}
	if u.Config == nil || s.loader.LastGood == u.LastGood { // else apply refused it, and may take it the next time
		s.last = answered{sum, wrong}
	}
	return wrong
}

// sumOf returns a hash of a response's version and resources, in whatever order they are.
func sumOf(r *discovery.DiscoveryResponse) [sha256.Size]byte {
	var sums []string
	for _, resource := range r.GetResources() {
		sum := sha256.Sum256(resource.GetValue())
		sums = append(sums, string(sum[:])+resource.GetTypeUrl())
	}
	slices.Sort(sums)
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", r.GetVersionInfo(), sums))
}

// listed returns errors one a line, cut to what a server is told. It is valid UTF-8, as a message has to be.
func listed(errs []error) string {
	text := strings.ToValidUTF8(errors.Join(errs...).Error(), "?")
	return string(descriptors.AppendCut(nil, []byte(text), maxRefusal))
}
