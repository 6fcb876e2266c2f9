// Package dropin has no code of its own: its tests run the weir binary in the place of envoyproxy/ratelimit, with the
// command, environment, mounts and certificates that Envoy Gateway, Istio's sample and compose files give that.
// README.md says what stands around it and how it is judged.
package dropin
