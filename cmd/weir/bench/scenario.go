package main

import (
	"context"
	_ "embed" // the rules of the scenarios
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

//go:embed descriptors.yaml
var descriptorFile []byte

// domain is that of descriptors.yaml.
const domain = "bench"

// limitOutOfReach is the limit of every rule in descriptors.yaml that must never deny.
const limitOutOfReach = 1_000_000

// scenario is one kind of load, on one rule.
type scenario struct {
	Name  string `json:"name"`            // what --only takes
	Rule  string `json:"rule,omitempty"`  // the key of its rule
	Redis bool   `json:"redis,omitempty"` // weir counts in Redis, not in memory
	// History is what a weir of its own on the memory backend does with the history of its hits; "" for the others,
	// whose weirs keep none.
	History history                          `json:"history,omitempty"`
	Title   string                           `json:"title"`
	Limit   uint32                           `json:"limit"`   // what its answers must show as the current limit
	OneKey  bool                             `json:"one_key"` // all requests count on one key; else they are spread
	Want    ratelimit.RateLimitResponse_Code `json:"-"`       // the verdict of every measured request
	Budget  float64                          `json:"budget_floors,omitempty"`
	// RedisBudget is what the request may cost Redis, in INCRBYs.
	RedisBudget float64 `json:"budget_incrbys,omitempty"`
}

// floorName is the scenario that all others are compared with.
const floorName = "floor"

// memoryBudget is what one descriptor on the memory backend may cost, in floors.
const memoryBudget = 0.85

// scenarios lists all there are, the floor first.
func scenarios() []scenario {
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	memory := func(name, title string) scenario {
		return scenario{Name: name, Rule: name, Title: title, Limit: limitOutOfReach, Want: ok, Budget: memoryBudget}
	}
	redis := func(rule, title string, floors, incrBys float64) scenario {
		return scenario{
			Name: "redis-" + rule, Rule: rule, Redis: true, Title: "Redis, " + title, Limit: limitOutOfReach, Want: ok,
			Budget: floors, RedisBudget: incrBys,
		}
	}
	measured := func(h history, title string) scenario {
		s := memory("history", title)
		s.Name, s.History = "history-"+string(h), h
		return s
	}
	return []scenario{
		{Name: floorName, Title: "floor: grpc-go, constant answer", Limit: limitOutOfReach, Want: ok},
		memory("fixed-minute", "fixed window, minute"),
		memory("sliding-minute", "sliding window, minute by 1 s"),
		memory("sliding-hour", "sliding window, hour by 1 min"),
		memory("sliding-day", "sliding window, day by 1 min"),
		{
			Name: "denied", Rule: "denied", Title: "denied hot key, sliding hour", Limit: 10, OneKey: true,
			Want: over, Budget: memoryBudget,
		},
		measured(historyOff, "no history, sliding hour"),
		measured(historyOn, "history in Redis, 100 values, flushed every second"),
		measured(historyHangs, "the same, and its Redis hangs"),
		redis("fixed-minute", "fixed window, minute", 1.25, 4.5),
		redis("sliding-hour", "sliding window, hour by 1 min", 1.3, 6),
		redis("sliding-day", "sliding window, day by 1 min", 1.3, 14),
	}
}

// chosen returns what the options ask for. A server that runs already counts where it counts, so there weir's scenarios
// on Redis have no part.
func (o options) chosen() ([]scenario, error) {
	chosen, err := choose(scenarios(), o.Only)
	if err != nil || !o.NoRedis && o.Addr == "" {
		return chosen, err
	}
	var kept []scenario
	for _, s := range chosen {
		own := s.Redis || s.History != ""
		if own && len(o.Only) > 0 {
			return nil, fmt.Errorf("--only %s: it runs weir on a Redis of its own, which --addr and --no-redis leave out",
				s.Name)
		}
		if !own {
			kept = append(kept, s)
		}
	}
	return kept, nil
}

// choose keeps the floor and the named scenarios, or all if none is named.
func choose(all []scenario, names []string) ([]scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	unknown := slices.Clone(names)
	var chosen []scenario
	for _, s := range all {
		if s.Name == floorName || slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == s.Name })
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("--only %s: there is no such scenario; use some of %s", unknown[0], scenarioNames())
	}
	return chosen, nil
}

// scenarioNames lists what --only takes.
func scenarioNames() string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// request is one question about one descriptor of one entry.
func (s scenario) request(key int) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{
		Domain: domain,
		Descriptors: []*ratelimitcommon.RateLimitDescriptor{{
			Entries: []*ratelimitcommon.RateLimitDescriptor_Entry{{Key: s.Rule, Value: fmt.Sprintf("user-%05d", key)}},
		}},
	}
}

// requests encodes one request for each key, shuffled: a server must not profit from keys that come in the order in
// which they lie in its memory.
func (s scenario) requests(keys int) ([][]byte, error) {
	if s.OneKey {
		keys = 1
	}
	encoded := make([][]byte, keys)
	for i := range encoded {
		b, err := proto.Marshal(s.request(i))
		if err != nil {
			return nil, fmt.Errorf("scenario %s: encode a request: %w", s.Name, err)
		}
		encoded[i] = b
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(keys, func(i, j int) { encoded[i], encoded[j] = encoded[j], encoded[i] })
	return encoded, nil
}

// probe asks the server the scenario's question and reads the whole answer, so that a server that has other rules, or
// none, does not yield a fine figure. Where denial is wanted it spends the limit first.
func (s scenario) probe(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := ratelimit.NewRateLimitServiceClient(conn)
	if s.Want == ratelimit.RateLimitResponse_OVER_LIMIT {
		for range s.Limit {
			if _, err := client.ShouldRateLimit(ctx, s.request(0)); err != nil {
				return fmt.Errorf("spend the limit: %w", err)
			}
		}
	}
	answer, err := client.ShouldRateLimit(ctx, s.request(0))
	if err != nil {
		return fmt.Errorf("first request: %w", err)
	}
	return s.check(answer)
}

// check compares an answer with what the scenario's rule must yield.
func (s scenario) check(answer *ratelimit.RateLimitResponse) error {
	if answer.GetOverallCode() != s.Want {
		return fmt.Errorf("the verdict is %s, not %s: the server does not hold the rules of descriptors.yaml",
			answer.GetOverallCode(), s.Want)
	}
	if n := len(answer.GetStatuses()); n != 1 {
		return fmt.Errorf("the answer has %d statuses for one descriptor", n)
	}
	limit := answer.GetStatuses()[0].GetCurrentLimit()
	if limit.GetRequestsPerUnit() != s.Limit {
		return fmt.Errorf("the current limit is %d, not %d: the server does not hold the rules of descriptors.yaml",
			limit.GetRequestsPerUnit(), s.Limit)
	}
	return nil
}
