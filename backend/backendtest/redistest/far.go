package redistest

import "testing"

// Far is a proxy at the other end of a route that can lose everything: unlike a proxy's own faults, that also holds for
// connections which are being opened.
type Far struct {
	*FaultProxy
	Real bool // packets are lost; else the machine does not allow a network of its own, and the proxy drops bytes

	BlackHole func(testing.TB) // loses all that the far end sends, without a word to anybody, until Restore
	Restore   func(testing.TB) // ends BlackHole
}

// FarProxy starts a proxy to a Redis at host:port in a network namespace of its own, until the test ends. Where the
// machine allows none, the test's log says so, and the proxy stands for it.
func FarProxy(t testing.TB, target string) *Far {
	t.Helper()
	far, err := farProxy(t, target)
	if err == nil {
		return far
	}
	t.Logf("NOT TESTED HERE: a black hole of packets: this machine allows no network namespace (%v). A proxy that drops "+
		"bytes is tested in its place", err)
	p := Proxy(t, target)
	return &Far{FaultProxy: p, BlackHole: func(testing.TB) {
		p.Drop(Requests)
		p.Drop(Replies)
	}, Restore: func(testing.TB) {
		p.Heal()
		p.ResetAll() // they stay mute
	}}
}
