package redis

import (
	"maps"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestExchangeSharesValuesAmongReplicas(t *testing.T) {
	store := opened(t, on(t, topology.Cluster), nil)
	const key = "4:shop4:user3:ann"
	for _, step := range []struct {
		name, says string
		want       map[string]string
	}{
		{"a", "1", nil},
		{"b", "2 3", map[string]string{"a": "1"}},
		{"a", "4", map[string]string{"b": "2 3"}},
		{"c", "", map[string]string{"a": "4", "b": "2 3"}},
		{"b", "", map[string]string{"a": "4"}},
		{"c", "5", map[string]string{"a": "4"}},
	} {
		got, err := store.Publish(t.Context(), key, step.name, step.says)
		if err != nil || !maps.Equal(got, step.want) {
			t.Errorf("%s says %q: %v, %v; want %v", step.name, step.says, got, err, step.want)
		}
	}
	if got, err := store.Publish(t.Context(), "4:shop4:user3:bob", "d", "9"); err != nil || len(got) != 0 {
		t.Errorf("of another key: %v, %v", got, err)
	}
	old := goredis.NewIntCmd(t.Context(), "hset", publishedKey(key), "a", time.Now().Add(-2*publishedTTL).UnixMilli())
	if err := store.Send(t.Context(), publishedKey(key), old); err != nil {
		t.Fatal(err)
	}
	fields := goredis.NewIntCmd(t.Context(), "hlen", publishedKey(key))
	got, err := store.Publish(t.Context(), key, "d", "")
	if err != nil || !maps.Equal(got, map[string]string{"c": "5"}) {
		t.Errorf("beside one that has said nothing for long: %v, %v", got, err)
	}
	if err := store.Send(t.Context(), publishedKey(key), fields); err != nil || fields.Val() != 1 {
		t.Errorf("%d fields are left, %v; want that of c", fields.Val(), err)
	}
}
