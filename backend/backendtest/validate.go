package backendtest

import (
	"fmt"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Validate returns what is wrong with a call of Decide, nil if nothing is. Stores rely on it, and do not look: no request
// and no configuration may lead to such a call.
func Validate(checks []backend.Check, out []backend.Decision) error {
	if err := backend.Validate(checks, out); err != nil {
		return err
	}
	for i := range checks {
		limits := checks[i].Limits
		for j := range limits {
			l := &limits[j]
			if l.Window <= 0 || l.Algorithm == 0 || (l.Precision > 0) != (l.Algorithm == descriptors.SlidingWindow) ||
				(l.Burst > 0) != (l.Algorithm == descriptors.TokenBucket && l.Requests > 0) {
				return fmt.Errorf("limit %d of check %d was not made by NewLimit: %+v", j, i, *l)
			}
			for k := range limits[:j] {
				if l.SameState(&limits[k]) {
					return fmt.Errorf("limits %d and %d of check %d have the same state: %v", k, j, i, limits)
				}
			}
		}
		if descriptors.Mixed(limits) {
			return fmt.Errorf("check %d mixes sliding_log with other algorithms: %v", i, limits)
		}
	}
	return nil
}
