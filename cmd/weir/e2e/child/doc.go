// Package child runs weir, Envoy and other programs for tests that ask them from outside, and builds the weir that such
// tests run.
package child
