package redishistory

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis"
)

// Whoever only reads needs a user of Redis that cannot do anything else, on any topology.
func TestAReaderNeedsNoRightToWrite(t *testing.T) {
	options := []redistest.Option{redistest.WithPassword("secret"),
		redistest.WithACL("reader", "secret", append([]string{"+ping", "+cluster|slots", "+asking"}, readingRules...)...)}
	var ring []string
	for _, node := range redistest.Ring(t, 2, options...) {
		ring = append(ring, node.Addr)
	}
	for name, c := range map[string]redis.Config{
		"single":  {URL: redistest.Single(t, options...).Addr},
		"ring":    {Type: redis.Ring, URL: strings.Join(ring, ",")},
		"cluster": {Type: redis.Cluster, URL: strings.Join(redistest.Cluster(t, options...).Addrs(), ",")},
	} {
		t.Run(name, func(t *testing.T) {
			c.Auth = "reader:secret"
			reader := opened(t, fleet{config: c}, nil, func(c *Config) { c.ReadOnly = true })
			if _, err := lifetimes(t, reader); name == "ring" && err == nil {
				t.Error("a ring on which no weir has kept anything is read: want an error that says so")
			}

			c.Auth = "secret"
			writer := opened(t, fleet{config: c}, fixed(start), nil)
			if err := newAuthor(writer, "ann", 3).land(t.Context(), start.Unix()/60); err != nil {
				t.Fatal(err)
			}
			want, err := lifetimes(t, writer)
			if got, failed := lifetimes(t, reader); err != nil || failed != nil || !maps.Equal(got, want) || len(want) == 0 {
				t.Errorf("the reader finds %v (%v), want %v (%v), as the writer does", got, failed, want, err)
			}
			if err := reader.Answers(t.Context()); err != nil {
				t.Errorf("the reader does not find its Redis: %v", err)
			}
			if _, err := reader.Apply(t.Context(), 0, history.Batch{Writer: "ann", Seq: 1}); !errors.Is(err, errReadOnly) {
				t.Errorf("a reader that writes: %v, want an error", err)
			}
			if _, err := reader.Roll(t.Context(), history.Job{Now: start}); !errors.Is(err, errReadOnly) {
				t.Errorf("a reader that rolls: %v, want an error", err)
			}
			if err := reader.Check(t.Context()); !errors.Is(err, errReadOnly) {
				t.Errorf("a reader that probes: %v, want an error", err)
			}
		})
	}
}

func lifetimes(t *testing.T, s *Store) (map[history.ID]uint64, error) {
	found := make(map[history.ID]uint64)
	return found, s.Query(t.Context(), history.Query{To: math.MaxInt64}, func(one history.Series) error {
		found[one.ID] = one.Lifetime
		return one.Err
	})
}
