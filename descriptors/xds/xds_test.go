package xds

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirproxy/weir/descriptors"
)

func TestEachVersionIsAccepted(t *testing.T) {
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
	if len(c.errors()) != 0 || c.logged("level=ERROR")+c.logged("level=WARN") != 0 {
		t.Errorf("nothing was wrong, but OnError was told of %v", c.errors())
	}
}

func TestABadResourceHoldsUpNoOtherDomain(t *testing.T) {
	server := listen(t, "127.0.0.1:0", nil)
	server.set("1", limited("a", 1), limited("b", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1 b=1", "all are good")
	server.set("2", unitless("a"), limited("b", 2), unitless("c"))
	c.expect("a=1 b=2 c=broken", "a keeps its last good form, c never had one")
	c.await("the refusal", func() bool { return server.seen()[len(server.seen())-1].GetErrorDetail() != nil })
	refused := server.seen()[len(server.seen())-1]
	if refused.GetVersionInfo() != "1" {
		t.Errorf("the refusal names version %s, want 1, the last that was accepted", refused.GetVersionInfo())
	}
	for _, want := range []string{"resource a: domain a, k: unit is missing", "resource c: domain c, k: unit is missing"} {
		if got := refused.GetErrorDetail().GetMessage(); !strings.Contains(got, want) {
			t.Errorf("the server is told %q, want …%s…", got, want)
		}
	}
	server.set("3", limited("b", 3), limited("c", 1))
	c.expect("b=3 c=1", "the bad one has gone, and with it its domain")
	c.await("the acceptance", func() bool { return server.seen()[len(server.seen())-1].GetVersionInfo() == "3" })
	if got := c.errors(); len(got) != 1 || !strings.Contains(got[0].Error(), "2 errors, the first: resource a: ") {
		t.Errorf("OnError was told %v, want once: 2 errors", got)
	}
	if c.logged("configuration loaded only in part") != 1 || c.logged("keep their last good form: a;") != 1 {
		t.Error("the log does not say once what becomes of the domains")
	}
}

// A cache of snapshots answers a refusal at once with what it has.
func TestARefusedVersionIsAskedForOnceASecond(t *testing.T) {
	t.Parallel() // it takes its time
	server := listen(t, "127.0.0.1:0", nil)
	server.set("1", limited("a", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1", "the first version")
	server.set("2", unitless("a"), limited("b", 1))
	c.expect("a=1 b=1", "the good part is put in force")
	const watched = 10 * time.Second
	began := time.Now()
	time.Sleep(watched)
	within := func() (n int) {
		server.mu.Lock()
		defer server.mu.Unlock()
		for i, at := range server.times {
			if server.requests[i].GetErrorDetail() != nil && at.Sub(began) < watched {
				n++
			}
		}
		return n
	}()
	t.Logf("%d refusals in %v", within, watched)
	if within > 11 || within < 2 {
		t.Errorf("%d refusals in %v, want one a second: a server that answers at once must not be kept busy", within, watched)
	}
	if got := len(c.errors()); got != 1 {
		t.Errorf("OnError was told %d times of one rejection", got)
	}
	if got := c.logged("unit is missing"); got != 2 { // as a problem, and as the first of all
		t.Errorf("one rejection was logged %d times, want twice", got)
	}
	server.set("3", limited("a", 3))
	changed := time.Now()
	c.expect("a=3", "a later version is put in force")
	t.Logf("a later version was in force after %v", time.Since(changed))
}

func TestASnapshotThatSwapsAllTheTimeLeavesNoGap(t *testing.T) {
	t.Parallel() // it takes its time
	server := listen(t, "127.0.0.1:0", nil)
	server.set("0", limited("a", 1), limited("b", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1 b=1", "the first version")
	stop := make(chan struct{})
	var matcher sync.WaitGroup
	matcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got := c.limits(); !strings.HasPrefix(got, "a=") {
				t.Errorf("in force is %q, where a domain never left", got)
				return
			}
		}
	})
	const swaps = 50
	for i := range swaps {
		time.Sleep(100 * time.Millisecond)
		if i%2 == 0 {
			server.set(fmt.Sprint("v", i%7), limited("a", uint32(i+2)))
		} else {
			server.set(fmt.Sprint("v", i%7), limited("a", uint32(i+2)), limited("b", uint32(i)))
		}
	}
	c.expect(fmt.Sprintf("a=%d b=%d", swaps+1, swaps-1), "the last one is in force")
	close(stop)
	matcher.Wait()
	if c.logged("level=ERROR")+c.logged("level=WARN") != 0 {
		t.Error("nothing was wrong, but the log says so")
	}
}

func TestAServerThatComesBackIsFollowed(t *testing.T) {
	server := listen(t, socket(t), nil)
	server.set("9", limited("a", 1), limited("b", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1 b=1", "the first server")
	server.stop()
	c.await("the pause is told", func() bool { return c.logged("configuration server is away") > 0 })
	if got := c.limits(); got != "a=1 b=1" {
		t.Errorf("in force is %s, want what the server sent last while it is away", got)
	}
	next := listen(t, server.address, nil)
	next.set("9", limited("a", 2)) // another replica, whose versions mean something else
	c.expect("a=2", "a server that uses the same version for something else")
	if got := next.seen()[0]; got.GetVersionInfo() != "" || got.GetResponseNonce() != "" || got.GetNode().GetId() != node {
		t.Errorf("a new stream begins with %v, want one that says who asks, and has no version", got)
	}
	if c.logged(`configuration="the last one"`) == 0 || len(c.errors()) != 0 {
		t.Errorf("OnError was told %v: a server that is away is not a bad configuration", c.errors())
	}
}

func TestAServerMayBeNamedAsGRPCNamesIt(t *testing.T) {
	local := listen(t, socket(t), nil)
	local.set("1", limited("a", 1))
	follow(t, local.address, nil).expect("a=1", "over a socket")
	server := listen(t, "[::1]:0", nil)
	server.set("1", limited("b", 1))
	follow(t, "passthrough:///"+server.address, nil).expect("b=1", "with a resolver of one's own choice")
	follow(t, server.address, nil).expect("b=1", "by an IPv6 address")
}

func TestAnAbsentServerIsTriedWithPauses(t *testing.T) {
	server := listen(t, socket(t), nil)
	server.stop()
	c := follow(t, server.address, nil)
	time.Sleep(3 * time.Second)
	if got := c.logged("level="); got > 6 || got < 1 { // 100, 200, 400, 800 ms, then a second each
		t.Errorf("%d lines in 3 s, want one before each pause", got)
	}
	if got := c.limits(); got != "nothing" {
		t.Errorf("in force is %s without any server", got)
	}
	next := listen(t, server.address, nil)
	next.set("1", limited("a", 1))
	c.expect("a=1", "the server has come")
}

func TestASilentServerIsWaitedFor(t *testing.T) {
	t.Parallel()                            // it takes its time
	server := listen(t, "127.0.0.1:0", nil) // which has no snapshot, and answers nothing
	c := follow(t, server.address, nil)
	c.await("the first request", func() bool { return len(server.seen()) == 1 })
	c.await("the log says what could be the reason", func() bool { return c.logged("configuration server is silent") == 1 })
	server.set("1", limited("a", 1))
	c.expect("a=1", "the first version")
	if server.streams != 1 || len(server.seen()) > 2 {
		t.Errorf("%d streams and %d requests, want one stream that waits", server.streams, len(server.seen()))
	}
}

func TestWhatIsRefusedAfterAllIsToldToTheServer(t *testing.T) {
	server := listen(t, "127.0.0.1:0", nil)
	server.set("1", limited("a", 1))
	c := follow(t, server.address, nil)
	c.expect("a=1", "the first version")
	c.mu.Lock()
	c.refuse = errors.New("too many rules for this server")
	c.mu.Unlock()
	server.set("2", limited("a", 2))
	c.await("the refusal", func() bool {
		last := server.seen()[len(server.seen())-1]
		return last.GetErrorDetail().GetMessage() == "too many rules for this server" && last.GetVersionInfo() == "1"
	})
	c.mu.Lock()
	c.refuse = nil
	c.mu.Unlock()
	c.expect("a=2", "the server sends it again, and nothing speaks against it any more")
}

func TestTwoResourcesOfOneDomainAreMergedOnlyIfAsked(t *testing.T) {
	more := &ratelimit.RateLimitConfig{Name: "z", Domain: "a", Descriptors: []*ratelimit.RateLimitDescriptor{{Key: "l"}}}
	for _, merge := range []bool{false, true} {
		server := listen(t, "127.0.0.1:0", nil)
		server.set("1", limited("a", 1), more, limited("b", 1))
		c := follow(t, server.address, func(c *Config) { c.Rules.Merge = merge })
		if merge {
			c.expect("a=1 b=1", "both make one domain")
			continue
		}
		c.expect("a=broken b=1", "nobody knows which one is meant")
		c.await("the refusal", func() bool {
			const want = "resource z: domain a: this domain is already configured at resource a: keep a domain in one"
			return strings.Contains(server.seen()[len(server.seen())-1].GetErrorDetail().GetMessage(), want)
		})
	}
}

func TestRulesKnowTheirResource(t *testing.T) {
	s := New(Config{})
	files, _, _ := read(pack(t, limited("a", 1)))
	rules := s.held.Renew(files, nil).Config.Rules()
	if len(rules) != 1 || rules[0].Where != "resource a" {
		t.Errorf("the rules are %+v, want one at resource a: nobody sees the lines of what is written for it", rules)
	}
}

// A response without any of the fields that a right one has must do no harm.
func TestAnOddResponseDoesNoHarm(t *testing.T) {
	var s Source
	for _, r := range []*discovery.DiscoveryResponse{nil, {}, {Resources: pack(t, nil, &ratelimit.RateLimitConfig{})}} {
		s = *New(Config{Log: discard})
		if wrong := s.take(r, func(*descriptors.Config) error { return nil }); len(r.GetResources()) == 0 && wrong != "" {
			t.Errorf("%v: an empty list is refused: %s", r, wrong)
		}
	}
}

// A gauge that says whether all is in force is set by what apply and OnError are told, in this order.
func TestWhatIsInForceInPartIsToldAfterEachChange(t *testing.T) {
	var told []string
	s := New(Config{Log: discard, OnError: func(error) { told = append(told, "in part") }})
	take := func(version string, all ...*ratelimit.RateLimitConfig) {
		r := &discovery.DiscoveryResponse{VersionInfo: version}
		for _, c := range all {
			r.Resources = append(r.Resources, pack(t, c)...)
		}
		s.take(r, func(*descriptors.Config) error {
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
