package redis

import (
	"maps"
	"testing"

	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestExchangeSharesValuesAmongReplicas(t *testing.T) {
	store := opened(t, on(t, topology.Cluster), nil)
	for _, step := range []struct {
		name, says string
		gone       []string
		want       map[string]string
	}{
		{"a", "1", nil, map[string]string{"a": "1"}},
		{"b", "2", nil, map[string]string{"a": "1", "b": "2"}},
		{"c", "3", []string{"b"}, map[string]string{"a": "1", "c": "3"}},
		{"a", "", nil, map[string]string{"c": "3"}},
	} {
		got, err := store.Exchange(t.Context(), "4:shop4:user3:ann", step.name, step.says, step.gone)
		if err != nil || !maps.Equal(got, step.want) {
			t.Errorf("%s says %q: %v, %v; want %v", step.name, step.says, got, err, step.want)
		}
	}
	if got, err := store.Exchange(t.Context(), "4:shop4:user3:bob", "a", "9", nil); err != nil || len(got) != 1 {
		t.Errorf("of another key: %v, %v", got, err)
	}
}
