// Package e2e tests weir from outside: the built binary is asked over gRPC as Envoy asks it, and by a real Envoy, over
// its admin port, and by its own commands. Each test shows one thing that weir promises to an operator.
//
// The tests need an envoy on PATH or in .tools, where make tools puts one. Without it they fail.
package e2e
