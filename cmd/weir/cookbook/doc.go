// Package cookbook has no code of its own: its tests run every recipe of k8s/cookbook/README.md. They take the fenced
// blocks out of the document itself, put a real Envoy around those for Envoy and weir behind it with those for weir,
// send the requests of the transcript, and compare what becomes of them with what the document says.
package cookbook
