//go:build !linux

package redistest

import (
	"errors"
	"testing"
)

func farProxy(testing.TB, string) (*Far, error) { return nil, errors.New("only Linux has them") }
