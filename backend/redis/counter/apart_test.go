package counter

import (
	"context"
	"slices"

	"github.com/weirproxy/weir/backend"
)

// apart keeps the keys of one store of a test apart from those of others on the same servers.
type apart struct {
	backend.Counter
	own []byte
}

// Decide asks the store with other keys.
func (a apart) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	checks = slices.Clone(checks)
	for i := range checks {
		if len(checks[i].Key) > 0 {
			checks[i].Key = slices.Concat(a.own, checks[i].Key)
		}
	}
	return a.Counter.Decide(ctx, checks, out)
}
