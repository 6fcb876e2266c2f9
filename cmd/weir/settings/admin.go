package settings

import (
	"fmt"
	"strings"
)

// AdminAddress returns HOST:PORT where this machine reaches the admin port of a weir serve that has the same environment:
// 127.0.0.1:6070 unless DEBUG_HOST or DEBUG_PORT say otherwise. A weir that listens everywhere is asked on the loopback
// address. Other variables are not looked at.
func AdminAddress() (string, error) {
	var at struct {
		Host string `envconfig:"DEBUG_HOST" default:"127.0.0.1"`
		Port uint16 `envconfig:"DEBUG_PORT" default:"6070"`
	}
	if err := process("weir", &at); err != nil {
		return "", fmt.Errorf("%w (--admin names a port in any case)", err)
	}
	if err := require(at.Port > 0, "DEBUG_PORT", at.Port, "weir serve chose a free port: --admin says which"); err != nil {
		return "", err
	}
	switch strings.Trim(at.Host, "[]") {
	case "", "0.0.0.0":
		at.Host = "127.0.0.1"
	case "::":
		at.Host = "::1"
	}
	return address(at.Host, at.Port), nil
}
