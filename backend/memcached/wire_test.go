package memcached

import (
	"bufio"
	"strings"
	"testing"
)

func TestOversizedReplyIsNotRead(t *testing.T) {
	for _, header := range []string{"VALUE k 0 1048577 1", "VALUE k 0 -1 1", "VALUE k 0 99999999999999999999 1", "VALUE k"} {
		c := &conn{in: bufio.NewReader(strings.NewReader(header + "\r\n"))}
		if _, err := c.readValue(); err == nil || !strings.Contains(err.Error(), "which is no value") {
			t.Errorf("%q gives %v; want an error: a server that lies would take weir's memory", header, err)
		}
	}
}
