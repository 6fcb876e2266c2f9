package xds

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weirproxy/weir/descriptors"
)

func TestEachVersionIsAcknowledged(t *testing.T) {
	t.Parallel()
	server := listen(t, "127.0.0.1:0", nil)
	server.set("1", limited("a", 1))
	c := follow(t, server.address, func(c *Config) {
		c.Metadata = map[string]string{"zone": "b"}
		c.Headers = map[string]string{"X-Team": "edge"}
	})
	c.expect("a=1", "the first version")
	server.set("7", limited("a", 2), limited("b", 1))
	c.expect("a=2 b=1", "a version with a change and a new domain")
	server.set("3", limited("b", 1))
	c.expect("b=1", "a version whose number goes backwards, without one of the domains")
	server.set("4")
	c.expect("", "a version without domains, in which every request is OK")
	c.await("the last answer", func() bool { return len(server.seen()) == 5 })

	for i, want := range []string{"", "1", "7", "3", "4"} {
		r := server.seen()[i]
		if r.GetVersionInfo() != want || r.GetErrorDetail() != nil || r.GetTypeUrl() != typeURL || len(r.GetResourceNames()) != 0 ||
			(r.GetResponseNonce() == "") != (i == 0) {
			t.Errorf("request %d is %v, want one for all resources that accepts version %q", i, r, want)
		}
	}
	first := server.seen()[0].GetNode()
	if first.GetId() != node || first.GetMetadata().GetFields()["zone"].GetStringValue() != "b" {
		t.Errorf("the node is %v, want its id and its metadata: servers choose by them", first)
	}
	if got := server.headers.Get("x-team"); len(got) != 1 || got[0] != "edge" {
		t.Errorf("the stream's header is %q, want edge", got)
	}
	if len(c.errors()) != 0 || c.Logged("level=ERROR")+c.Logged("level=WARN") != 0 {
		t.Errorf("nothing was wrong, but OnError was told of %v", c.errors())
	}
}

func TestReturningServerIsFollowed(t *testing.T) {
	t.Parallel()
	server := listen(t, socket(t), nil)
	server.set("9", limited("a", 1), limited("b", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1 b=1", "the first server")
	server.stop()
	c.await("the pause is told", func() bool { return c.Logged("configuration server is away") > 0 })
	if got := c.limits(); got != "a=1 b=1" {
		t.Errorf("in force is %s, want what the server sent last while it is away", got)
	}
	next := listen(t, server.address, nil)
	next.set("9", limited("a", 2)) // another replica, whose versions mean something else
	c.expect("a=2", "a server that uses the same version for something else")
	if got := next.seen()[0]; got.GetVersionInfo() != "" || got.GetResponseNonce() != "" || got.GetNode().GetId() != node {
		t.Errorf("a new stream begins with %v, want one that says who asks, and has no version", got)
	}
	if c.Logged(`configuration="the last one"`) == 0 || len(c.errors()) != 0 {
		t.Errorf("OnError was told %v: a server that is away is not a bad configuration", c.errors())
	}
}

func TestRefusalByApplyReachesTheServer(t *testing.T) {
	t.Parallel()
	server := listen(t, "127.0.0.1:0", nil)
	server.set("1", limited("a", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1", "the first version")
	c.Refuse(errors.New("too many rules for this server"))
	server.set("2", limited("a", 2))
	c.await("the refusal", func() bool {
		last := server.seen()[len(server.seen())-1]
		return last.GetErrorDetail().GetMessage() == "too many rules for this server" && last.GetVersionInfo() == "1"
	})
	c.Refuse(nil)
	c.expect("a=2", "the server sends it again, and nothing speaks against it any more")
}

// A gauge that says whether all is in force is set by what apply and OnError are told, in this order.
func TestPartialConfigurationIsReportedAfterApply(t *testing.T) {
	var told []string
	s := New(Config{Log: discard, OnError: func(error) { told = append(told, "in part") }})
	take := func(version string, all ...proto.Message) {
		r := &discovery.DiscoveryResponse{VersionInfo: version, Resources: pack(t, all...)}
		s.update(r, func(*descriptors.Config) error {
			told = append(told, "applied")
			return nil
		})
	}
	take("1", unitless("a"), limited("b", 1))
	take("1", unitless("a"), limited("b", 1))
	take("1", unitless("a"), limited("b", 2)) // by another replica, which calls it 1 as well
	take("2", unitless("a"), limited("b", 2))
	take("3", limited("b", 2))
	want := "applied, in part, applied, in part, in part, applied"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("told was %s, want %s", got, want)
	}
}

func TestBackoffGrowsToItsMaximum(t *testing.T) {
	first := func(b Backoff, n int) (seconds []float64) {
		b = b.bounded()
		for next := b.Retry; len(seconds) < n; next = b.next(next) {
			seconds = append(seconds, b.jittered(next).Seconds())
		}
		return seconds
	}
	forever := time.Duration(math.MaxInt64).Seconds()
	for _, test := range []struct {
		pauses Backoff
		want   []float64
	}{
		{Backoff{Retry: 3 * time.Second, Initial: 10 * time.Second, Max: time.Minute}, []float64{3, 10, 20, 40, 60, 60}},
		{Backoff{Retry: time.Second, Initial: 2 * time.Second, Max: 5 * time.Second, Jitter: math.NaN()}, []float64{1, 2, 4, 5, 5}},
		{Backoff{Retry: time.Minute, Initial: 90 * time.Second}, []float64{60, 90, 90}},
		{Backoff{}, []float64{0.1, 0.1}},
		{Backoff{Retry: math.MaxInt64, Initial: math.MaxInt64, Max: math.MaxInt64}, []float64{forever, forever, forever}},
	} {
		if got := first(test.pauses, len(test.want)); !slices.Equal(got, test.want) {
			t.Errorf("%+v: the pauses are %v, want %v seconds", test.pauses, got, test.want)
		}
	}
}

func TestBackoffIsJittered(t *testing.T) {
	for jitter, from := range map[float64]time.Duration{0.5: 5 * time.Second, 7: minWait} {
		b := Backoff{Jitter: jitter}.bounded()
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			pause := b.jittered(10 * time.Second)
			least, most = min(least, pause), max(most, pause)
		}
		if least < from || least > from+time.Second || most > 10*time.Second || most < 9*time.Second {
			t.Errorf("with a jitter of %v pauses of 10 s take from %v to %v, want from %v to 10 s", jitter, least, most, from)
		}
	}
}
