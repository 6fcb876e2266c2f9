// Package descriptors is weir's vocabulary: what a limit is, which rule a request's descriptor matches, and under which
// key its hits are counted.
//
// A source of configuration ([Source]) builds a match tree for each domain ([Domain]) and makes them an immutable
// [Config]. The request path asks it one question per descriptor ([Config.Match]) and writes one key
// ([Match.AppendKey]); neither allocates. Package yaml below it reads descriptor files, package file watches them.
package descriptors
