package counter

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
)

func reasonName(err error) string { return backend.ReasonOf(err).String() }

func losses(s *Store) string { return fmt.Sprint(s.StatesSince(time.Time{}), " states") }

func checkOutage(t *testing.T, some []called, resent uint64, dials int, lasts time.Duration) {}
