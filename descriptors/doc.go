// Package descriptors has the types of the configuration: limits, rules, and the matching of a request's descriptors to
// rules and keys of counters.
//
// A [Source] builds a match tree for each [Domain] and makes them an immutable [Config]. The request path calls
// [Config.Match] and [Match.AppendKey] for each descriptor; neither allocates. Package yaml parses descriptor files,
// package file watches a directory of them, package xds gets them from a server.
package descriptors
