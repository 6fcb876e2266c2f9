package descriptors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

func TestMatchSetFindsRulesInAnyOrder(t *testing.T) {
	const limit = "rate_limit: {requests_per_unit: 1, unit: hour}"
	c := fixture.Config(t, `{domain: shop, descriptors: [
		{key: user, `+limit+`, descriptors: [{key: area, `+limit+`}]},
		{key: area, value: north, descriptors: [{key: user, `+limit+`}]},
		{key: "p*", value: x, descriptors: [{key: z, `+limit+`}]}]}`)
	for _, one := range []struct{ set, order, path string }{
		{"user=ann", "user=ann", "user"},
		{"area=south,user=ann", "user=ann,area=south", "user/area"},
		{"area=north,user=ann", "user=ann,area=north", "user/area"}, // the first in the file
		{"z=1,path=x", "path=x,z=1", "p*=x/z"},
		{"z=1,b=2", "b=2,z=1", ""},
		{"area=north", "area=north", ""},
	} {
		set, err := descriptors.ParseDescriptor(one.set)
		if err != nil {
			t.Fatal(err)
		}
		order, m := c.MatchSet("shop", set)
		path := ""
		if m.Rule != nil {
			path = m.Rule.Path
		}
		if order.String() != one.order || path != one.path {
			t.Errorf("%s: %v by %q, want %s by %q", one.set, order, path, one.order, one.path)
		}
	}
}

func TestMatchSetIsFastWithManyEntries(t *testing.T) {
	text, tail := "", ""
	for range 9 { // each level takes any key
		text, tail = text+`descriptors: [{key: "*", value: "*", `, tail+"}]"
	}
	c := fixture.Config(t, "{domain: shop, "+text+"rate_limit: {requests_per_unit: 1, unit: hour}"+tail+"}")
	var set descriptors.Descriptor
	for i := range 16 {
		set = append(set, descriptors.Entry{Key: fmt.Sprint(i), Value: "x"})
	}
	done := make(chan struct{})
	go func() {
		c.MatchSet("shop", set)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("16! orders are tried")
	}
}
