package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// behaviour is one promise of the service to its clients: rules, and requests with their answers.
type behaviour struct {
	name      string
	algorithm descriptors.Algorithm // of limits that name none; 0 is fixed_window, that of envoyproxy/ratelimit
	limits    limit.Options
	answers   rls.Options
	rules     string // of the domain shop, below descriptors:
	steps     []step
	recorded  string // the recorded hits, as in formatTotals; "" is not checked
}

// step is a request, and its answer.
type step struct {
	at   string // the time of day from here on; at first it is 12:00:00
	ask  string // as ask reads it
	want string // as inWords writes it
}

// run starts a server with the rules, and runs the steps.
func (b *behaviour) run(t *testing.T) {
	var micros atomic.Int64
	micros.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro())
	b.limits.Algorithm = cmp.Or(b.algorithm, descriptors.FixedWindow)
	store := fixture.Memory(t, func() time.Time { return time.UnixMicro(micros.Load()) })
	r := start(t, setup{store: store, limits: b.limits, answers: b.answers})
	r.apply(t, "domain: shop\ndescriptors:\n"+b.rules, yaml.Options{Algorithm: b.limits.Algorithm})
	for i, s := range b.steps {
		if s.at != "" {
			at, err := time.Parse(time.DateTime, "2026-11-21 "+s.at)
			if err != nil {
				t.Fatal(err)
			}
			micros.Store(at.UnixMicro())
		}
		answer, err := r.client().ShouldRateLimit(t.Context(), ask(t, s.ask))
		got := formatResponse(answer)
		if err != nil {
			got = status.Code(err).String() + ": " + status.Convert(err).Message()
		}
		if got != s.want {
			t.Errorf("request %d, %s:\n got %s\nwant %s", i+1, s.ask, got, s.want)
		}
	}
	if got := formatTotals(r.recorder); b.recorded != "" && got != b.recorded {
		t.Errorf("recorded: %s\n    want: %s", got, b.recorded)
	}
}

// ask parses a request: descriptors as in weir call, joined by +. Words with a colon set fields: domain:bar and addend:3
// those of the request; hits:0, refund:, limit:5/HOUR and times:2 (the limit's unit_multiplier) those of the descriptor.
// The word nothing is a request without descriptors.
func ask(t *testing.T, text string) *ratelimit.RateLimitRequest {
	t.Helper()
	r := &ratelimit.RateLimitRequest{Domain: "shop"}
	if text == "nothing" {
		return r
	}
	for part := range strings.SplitSeq(text, " + ") {
		d := &common.RateLimitDescriptor{}
		for word := range strings.FieldsSeq(part) {
			what, value, found := strings.Cut(word, ":")
			if !found || strings.Contains(what, "=") {
				entries, err := descriptors.ParseDescriptor(word)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
				}
				continue
			}
			say(t, r, d, what, value)
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

func say(t *testing.T, r *ratelimit.RateLimitRequest, d *common.RateLimitDescriptor, what, value string) {
	t.Helper()
	number := func(digits string) uint64 {
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch what {
	case "domain":
		r.Domain = value
	case "addend":
		r.HitsAddend = uint32(number(value))
	case "hits":
		d.HitsAddend = wrapperspb.UInt64(number(value))
	case "refund":
		d.IsNegativeHits = true
	case "limit":
		requests, unit, _ := strings.Cut(value, "/")
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(number(requests)),
			Unit: typev3.RateLimitUnit(ratelimit.RateLimitResponse_RateLimit_Unit_value[unit])}
	case "times":
		d.Limit.UnitMultiplier = wrapperspb.UInt32(uint32(number(value)))
	default:
		t.Fatalf("%s: no request can say that", what)
	}
}

// formatResponse formats an answer: the verdict on the request, then each descriptor's: OK 2/HOUR few, 1 left, 3600s.
// Then come the body, the headers (those of the request after a >) and the rules' metadata, if there are any.
func formatResponse(r *ratelimit.RateLimitResponse) string {
	parts := []string{r.GetOverallCode().String()}
	for _, s := range r.GetStatuses() {
		text := s.Code.String()
		if l := s.CurrentLimit; l != nil {
			text += fmt.Sprintf(" %d/%v", l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				text += fmt.Sprint("*", l.UnitMultiplier.Value)
			}
			if l.Name != "" {
				text += " " + l.Name
			}
		}
		if s.LimitRemaining > 0 || s.CurrentLimit != nil {
			text += fmt.Sprintf(", %d left", s.LimitRemaining)
		}
		if s.DurationUntilReset != nil {
			text += ", " + s.DurationUntilReset.AsDuration().String()
		}
		parts = append(parts, text)
	}
	if len(r.GetRawBody()) > 0 {
		parts = append(parts, strconv.Quote(string(r.RawBody)))
	}
	for _, h := range r.GetResponseHeadersToAdd() {
		parts = append(parts, h.Key+": "+h.Value)
	}
	for _, h := range r.GetRequestHeadersToAdd() {
		parts = append(parts, "> "+h.Key+": "+h.Value)
	}
	if said := r.GetDynamicMetadata().GetFields()["metadata"]; said != nil {
		text, err := json.Marshal(said.AsInterface())
		parts = append(parts, string(text))
		if err != nil {
			parts = append(parts, err.Error())
		}
	}
	return strings.Join(parts, " | ")
}

// formatTotals formats the recorded hits by domain and path: shop user 2 within, 1 over.
func formatTotals(r *hits.Recorder) string {
	var all []string
	for _, total := range r.Totals() {
		text := total.Domain + " " + total.Path
		for _, part := range []struct {
			n    uint64
			name string
		}{{total.Within, "within"}, {total.Over, "over"}, {total.Shadow, "shadow"}, {total.Degraded, "degraded"}} {
			if part.n > 0 {
				text += fmt.Sprintf(" %d %s", part.n, part.name)
			}
		}
		if text != total.Domain+" "+total.Path {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// TestServiceBehavesLikeRatelimit tests the behaviours that envoyproxy/ratelimit promises to Envoy. If weir differs, the
// row and descriptors/FORMAT.md say so. Other tests prove that Redis decides as memory does, and which rule matches.
func TestServiceBehavesLikeRatelimit(t *testing.T) {
	for _, b := range slices.Concat(rpcBehaviours, limitBehaviours, ruleBehaviours) {
		t.Run(b.name, b.run)
	}
}

func TestUndecidableRequestsAreUnavailable(t *testing.T) {
	store := fixture.Memory(t, time.Now)
	r := start(t, setup{store: store})
	wants := func(when, text string) {
		t.Helper()
		_, err := r.client().ShouldRateLimit(t.Context(), ask(t, "user=ann"))
		if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), text) {
			t.Errorf("%s: %v; want UNAVAILABLE with %q, so that Envoy's failure_mode_deny decides", when, err, text)
		}
	}
	wants("before the first configuration", "no rate limit configuration loaded")
	r.configure(t)
	store.Close()
	wants("without its store", "closed")
	if got, want := formatTotals(r.recorder), "shop user 1 degraded"; got != want {
		t.Errorf("recorded: %s; want %s: no hit may go missing", got, want)
	}
}

func TestEveryOutcomeIsCounted(t *testing.T) {
	r := start(t, setup{limits: limit.Options{Shadow: true}})
	for i, text := range []string{"user=ann", "nothing", "user=ann", "user=ann", "user=ann", "domain:bar user=ann"} {
		if i == 1 {
			r.configure(t)
		}
		_, err := r.client().ShouldRateLimit(t.Context(), ask(t, text))
		if (err != nil) != (i < 2) {
			t.Errorf("request %d, %s: %v", i+1, text, err)
		}
	}
	_, metrics := get(t, r.admin, "/metrics")
	const outcome = `weir_requests_total{outcome=`
	for _, line := range []string{outcome + `"ok"} 3`, outcome + `"shadow"} 1`, outcome + `"invalid"} 1`, outcome + `"unavailable"} 1`,
		"weir_request_seconds_count 6", "go_goroutines"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %s: an operator could not see it", line)
		}
	}
}
