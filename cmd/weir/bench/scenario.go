package main

import (
	_ "embed" // the rules of the scenarios
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	ratelimitcommon "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

//go:embed descriptors.yaml
var descriptorFile []byte

// domain is that of descriptors.yaml.
const domain = "bench"

// limitOutOfReach is the limit of every rule in descriptors.yaml that must never deny.
const limitOutOfReach = 1_000_000

// keys is how many values the requests of a scenario are spread over.
const keys = 10_000

// Keys of the loads with leases, the requests that are drawn for one, and the limit that a single key does not reach.
const manyKeys, drawnRequests, limitFarOut = 100_000, 1 << 18, 4_000_000_000

// The load of long values: their bytes, how many there are, the requests in flight on each connection, and the time that
// Envoy gives an answer in k8s/envoy.
const longValueBytes, longValues, longInFlight, longDeadline = 60_000, 1_000, 25, 100 * time.Millisecond

// place is the server that a scenario runs against.
type place string

const (
	onFloor         place = "the floor"
	inMemory        place = "weir in memory"
	onRedis         place = "weir on Redis"
	onLeases        place = "weir on Redis, with leases"
	onMemcached     place = "weir on memcached"
	onRatelimitKeys place = "weir on memcached, in the keys of ratelimit"
	onHotKey        place = "three weirs on a memcached"
	historyOff      place = "weir without a history" // in memory, as the next
	historyOn       place = "weir with a history in Redis"
)

// scenario is one kind of load.
type scenario struct {
	Name        string // what --only takes
	Rule        string // the key of its rule
	Place       place
	Descriptors int // of a request; 0 is one. The second is on the rule whose key ends in -2, and so on
	Title       string
	Limit       uint32                           // what its answers must show as the current limit
	OneKey      bool                             // all requests count on one key; else they are spread
	Zipf        bool                             // spread by Zipf's law, s = 1.1; else evenly
	Want        ratelimit.RateLimitResponse_Code // the verdict of every measured request
	Budget      float64                          // what a request may cost, in floors,
	StoreBudget float64                          // and the store, in its INCRBYs or incrs; 0: nothing is said

	Long       bool    // its requests have long values and a deadline, and are compared with those of longFloorName
	AnswersAim float64 // least answers a second, in those of its floor; 0: nothing is said
}

// floorName is the scenario that others are compared with, longFloorName that for those with long values.
const floorName, longFloorName = "floor", "long-floor"

// floor names the scenario that s is compared with.
func (s scenario) floor() string {
	if s.Long {
		return longFloorName
	}
	return floorName
}

// memoryBudget is what one descriptor with one limit on the memory backend may cost, in floors.
const memoryBudget = 0.65

// scenarios lists all there are, the floor first.
func scenarios() []scenario {
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	memory := func(rule, title string, floors float64) scenario {
		return scenario{Name: rule, Rule: rule, Place: inMemory, Title: title, Limit: limitOutOfReach, Want: ok, Budget: floors}
	}
	redis := func(rule, title string, floors, incrBys float64) scenario {
		s := memory(rule, "Redis, "+title, floors)
		s.Name, s.Place, s.StoreBudget = "redis-"+rule, onRedis, incrBys
		return s
	}
	memcached := func(name, rule, title string, incrs float64) scenario {
		s := redis(rule, title, 1.3, incrs)
		s.Name, s.Title, s.Place = name, "memcached, "+title, onMemcached
		return s
	}
	hotKey := memcached("memcached-hot-key", "sliding-hour", "one key, sliding hour, by three weirs", 0)
	plain := memcached("memcached-ratelimit-minute", "fixed-minute", "fixed window, minute, by ratelimit's keys", 3)
	plain.Place = onRatelimitKeys
	hotKey.Place, hotKey.OneKey, hotKey.Budget = onHotKey, true, 0
	measured := func(name string, at place, title string) scenario {
		s := memory("history", title, memoryBudget)
		s.Name, s.Place = name, at
		return s
	}
	three := func(s scenario) scenario {
		s.Descriptors = 3
		return s
	}
	busy := func(name, rule, title string, floors, incrBys float64) scenario {
		s := redis(rule, title, floors, incrBys)
		s.Name, s.Place, s.Limit, s.OneKey = "redis-"+name, onLeases, limitFarOut, strings.HasPrefix(name, "one-key")
		s.Zipf = strings.HasPrefix(name, "zipf")
		return s
	}
	denied := scenario{Name: "denied", Rule: "denied", Place: inMemory, Title: "denied hot key, sliding hour", Limit: 10, OneKey: true,
		Want: over, Budget: memoryBudget}
	hot := denied
	hot.Name, hot.Title, hot.Place, hot.Budget, hot.StoreBudget = "redis-denied", "Redis, "+hot.Title, onRedis, 0.75, 0.1
	floor := scenario{Name: floorName, Place: onFloor, Title: "floor: grpc-go, constant answer", Limit: limitOutOfReach, Want: ok}
	long := memory("long-value", "60,000-byte values, 50 in flight, 100 ms", 0)
	long.Long, long.AnswersAim = true, 0.8
	longFloor := long
	longFloor.Name, longFloor.Place, longFloor.Title = longFloorName, onFloor, "floor: "+long.Title
	return []scenario{
		floor,
		memory("fixed-minute", "fixed window, minute", memoryBudget),
		memory("sliding-minute", "sliding window, minute by 1 s", memoryBudget),
		memory("sliding-hour", "sliding window, hour by 1 min", memoryBudget),
		memory("sliding-day", "sliding window, day by 1 min", memoryBudget),
		memory("two-limits", "two sliding limits, minute and hour", 0),
		three(memory("three-descriptors", "three descriptors, sliding hour: all three", 0)),
		denied,
		longFloor,
		long,
		measured("history-off", historyOff, "no history, sliding hour"),
		measured("history-on", historyOn, "history in Redis, 100 values, flushed every second"),
		redis("fixed-minute", "fixed window, minute", 0.95, 5),
		redis("sliding-hour", "sliding window, hour by 1 min", 0.95, 6),
		redis("sliding-day", "sliding window, day by 1 min", 0.95, 7),
		redis("token-bucket", "token bucket, hour", 0.95, 0),
		redis("sliding-log", "sliding log, hour", 0.95, 0),
		redis("two-limits", "two sliding limits, minute and hour", 1, 9),
		three(redis("three-descriptors", "three descriptors, sliding hour: all three", 0, 0)),
		hot,
		plain,
		memcached("memcached-fixed-minute", "fixed-minute", "fixed window, minute", 3),
		memcached("memcached-sliding-hour", "sliding-hour", "sliding window, hour by 1 min", 6),
		hotKey,
		busy("zipf", "leased", "Zipf's law over 100,000 keys, sliding hour", 0.9, 2),
		busy("zipf-asked", "asked", "the same, lease: false", 0.95, 6),
		busy("even", "leased-evenly", "an even load over 100,000 keys, sliding hour", 0, 0),
		busy("even-asked", "asked", "the same, lease: false", 0, 0),
		busy("one-key", "leased", "one hot key, sliding hour", 0.85, 0.05),
		busy("one-key-asked", "asked", "the same, lease: false", 0.95, 6),
	}
}

// chosen returns what the options ask for, with the floors that it is compared with.
func (o options) chosen() ([]scenario, error) {
	var chosen []scenario
	unknown := slices.Clone(o.Only)
	only := append([]string{floorName}, o.Only...)
	for _, s := range scenarios() {
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == s.Name })
		if slices.Contains(o.Only, s.Name) {
			only = append(only, s.floor())
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("--only %s: there is no such scenario; use some of %s", unknown[0], scenarioNames())
	}
	for _, s := range scenarios() {
		if len(o.Only) == 0 || slices.Contains(only, s.Name) {
			chosen = append(chosen, s)
		}
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

// request is one question about the descriptors of a key, each of one entry.
func (s scenario) request(key int) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: domain}
	for n := range max(1, s.Descriptors) {
		rule := s.Rule
		if n > 0 {
			rule = fmt.Sprintf("%s-%d", s.Rule, n+1)
		}
		r.Descriptors = append(r.Descriptors, &ratelimitcommon.RateLimitDescriptor{
			Entries: []*ratelimitcommon.RateLimitDescriptor_Entry{{Key: rule, Value: s.value(key)}},
		})
	}
	return r
}

// value returns the value of a key in the scenario's descriptors.
func (s scenario) value(key int) string {
	value := fmt.Sprintf("user-%05d", key)
	if s.Long {
		value = strings.Repeat(value, longValueBytes/len(value))
	}
	return value
}

// requests encodes one request for each key, shuffled: a server must not profit from keys that come in the order in
// which they lie in its memory. For a load with leases they are drawn.
func (s scenario) requests() ([][]byte, error) {
	n := keys
	switch {
	case s.OneKey:
		n = 1
	case s.Place == onLeases:
		n = manyKeys
	case s.Long:
		n = longValues
	}
	encoded := make([][]byte, n)
	for i := range encoded {
		b, err := proto.Marshal(s.request(i))
		if err != nil {
			return nil, fmt.Errorf("scenario %s: encode a request: %w", s.Name, err)
		}
		encoded[i] = b
	}
	r := rand.New(rand.NewPCG(1, 2))
	if s.Place == onLeases {
		draw := func() uint64 { return r.Uint64N(uint64(n)) }
		if s.Zipf {
			draw = rand.NewZipf(r, 1.1, 1, uint64(n)-1).Uint64
		}
		drawn := make([][]byte, drawnRequests)
		for i := range drawn {
			drawn[i] = encoded[draw()]
		}
		return drawn, nil
	}
	r.Shuffle(n, func(i, j int) { encoded[i], encoded[j] = encoded[j], encoded[i] })
	return encoded, nil
}
