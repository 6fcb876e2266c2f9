// Package e2e tests weir from outside: a real Envoy asks the built binary over gRPC for every HTTP request, as it does
// in a mesh. Each test starts its own Envoy, upstream and weir on ports of their own, and shows one thing that weir
// promises to an operator.
//
// The tests need an envoy on PATH or in .tools, where make tools puts one. Without it they fail.
package e2e
