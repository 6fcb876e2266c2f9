package process

import (
	"errors"
	"fmt"
	"testing"
)

// busOffset is how far above its port a node of a Redis cluster listens for the others.
const busOffset = 10_000

// Port returns a port that the kernel chose and that is held, on all addresses, until the test ends: nobody is given it by
// the kernel meanwhile, and the process that the test starts can listen on it, also again after it was killed.
func Port(t testing.TB) int {
	t.Helper()
	port, release, err := HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// Addr is Port as host:port.
func Addr(t testing.TB) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", Port(t))
}

// HoldPort is Port without a test: the port is held until release is called.
func HoldPort() (port int, release func(), err error) {
	return hold(0)
}

// HoldBusPort is HoldPort for a node of a Redis cluster: the port 10,000 above is held as well.
func HoldBusPort() (port int, release func(), err error) {
	var failed error
	for range 1000 {
		port, release, err := hold(0)
		if err != nil {
			return 0, nil, err
		}
		_, releaseBus, err := hold(port + busOffset)
		if err == nil {
			return port, func() { release(); releaseBus() }, nil
		}
		release()
		failed = err
	}
	return 0, nil, errors.Join(errors.New("of 1,000 ports none has a free one 10,000 above"), failed)
}
