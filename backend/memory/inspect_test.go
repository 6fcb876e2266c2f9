package memory

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest"
)

func TestInspect(t *testing.T) {
	s, clk := open(t, Config{})
	backendtest.Inspection(t, backendtest.Inspected{Counter: s, Inspector: s, SetTime: clk.set})
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are held after a reset; their room would be lost", n)
	}
}
