package descriptors

import "testing"

func TestNearestPrefersAMissingKey(t *testing.T) {
	for _, c := range []struct{ wanted, want string }{
		{"y1", "t=y1"}, {"T=y1", "t=y1"}, {"ann", "org=a,user=ann"}, {"an", "org=a,user=ann"}, {"t=y11", "t=y1"}, {"user=ann", "org=a,user=ann"}, {"", "org=a,user=ann"},
	} {
		n := Nearest{Wanted: c.wanted}
		for _, d := range []string{"t=y1", "y=t2", "org=a,user=ann", "t=anno"} {
			n.Add(d)
		}
		if n.Found != c.want {
			t.Errorf("the nearest to %q is %q, want %q", c.wanted, n.Found, c.want)
		}
	}
}
