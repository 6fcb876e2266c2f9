// Package collectortest tests that a real OpenTelemetry Collector, built from its modules, counts what weir's clients count.
// It is a module of its own, as the collector has hundreds of dependencies that weir does not have.
package collectortest
