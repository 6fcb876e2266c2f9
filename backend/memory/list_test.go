package memory

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest"
)

func TestList(t *testing.T) {
	s, clk := open(t, Config{MaxKeys: 10_000})
	backendtest.Listing(t, backendtest.Lists{Counter: s, Inspector: s, Lister: s, SetTime: clk.set, Whole: true})
}
