package callcmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// parseLimit reads a limit as [descriptors.Limit.String] writes it: 10/minute, or 10/5minute. How its window moves
// is the service's affair.
func parseLimit(text string) (descriptors.Limit, error) {
	count, window, found := strings.Cut(text, "/")
	if !found {
		return descriptors.Limit{}, fmt.Errorf("%q has no \"/\": write a limit as 10/minute or 10/5minute", text)
	}
	requests, err := strconv.ParseUint(count, 10, 32)
	if err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q in %q is not a whole number from 0 to 4294967295", count, text)
	}
	unit := strings.TrimLeft(window, "0123456789")
	multiplier := uint64(1)
	if digits := window[:len(window)-len(unit)]; digits != "" {
		if multiplier, err = strconv.ParseUint(digits, 10, 32); err != nil || multiplier == 0 {
			return descriptors.Limit{}, fmt.Errorf("%q in %q is not a multiplier from 1 to 4294967295", digits, text)
		}
	}
	u, err := descriptors.ParseUnit(unit)
	if err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q: %w", text, err)
	}
	limit, err := descriptors.NewLimit(requests, u, uint32(multiplier), descriptors.FixedWindow, 0)
	if err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q: %w", text, err)
	}
	return limit, nil
}
