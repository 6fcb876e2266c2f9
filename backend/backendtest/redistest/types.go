package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// Start starts servers of a REDIS_TYPE, until the test ends.
func Start(t testing.TB, kind string, options ...Option) *Set {
	t.Helper()
	return keep(t, func(dir string) (*Set, error) { return StartSet(dir, kind, options...) })
}

// Set is servers of one REDIS_TYPE.
type Set struct {
	URL      string       // as REDIS_URL names them
	Servers  []*Server    // all that hold keys, replicas among them
	Cluster  *ClusterSet  // nil for another type
	Sentinel *SentinelSet // nil for another type

	closer // ends all processes, and tells what they printed
}

// ringNodes is how many servers a ring of StartSet has.
const ringNodes = 3

// StartSet starts servers of a REDIS_TYPE, whose files are in dir.
func StartSet(dir, kind string, options ...Option) (*Set, error) {
	switch kind {
	case "single":
		s, err := StartSingle(dir, options...)
		if err != nil {
			return nil, err
		}
		return &Set{URL: s.Addr, Servers: []*Server{s}, closer: s}, nil
	case "sentinel":
		s, err := StartSentinel(dir, options...)
		if err != nil {
			return nil, err
		}
		return &Set{URL: s.Master + "," + strings.Join(s.Addrs(), ","), Servers: s.Nodes, Sentinel: s, closer: s}, nil
	case "cluster":
		c, err := StartCluster(dir, options...)
		if err != nil {
			return nil, err
		}
		return &Set{URL: strings.Join(c.Addrs(), ","), Servers: c.Nodes, Cluster: c, closer: c}, nil
	case "ring":
		r, err := StartRing(dir, ringNodes, options...)
		if err != nil {
			return nil, err
		}
		return &Set{URL: strings.Join(addrs(r), ","), Servers: r, closer: servers(r)}, nil
	}
	return nil, fmt.Errorf("there is no REDIS_TYPE %q", kind)
}
