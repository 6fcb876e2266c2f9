// Package weirtest starts what tests of the whole program need: a weir that is ready, an Envoy before it, and clients of
// both. The tests of e2e, dropin, cookbook and the chart share it; nothing that is shipped imports it.
package weirtest
