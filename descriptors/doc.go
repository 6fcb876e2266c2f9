// Package descriptors is weir's vocabulary: what a limit is, which rule a request's descriptor matches, and
// under which key its hits are counted.
//
// A configuration is read from YAML files ([Parse]) into an immutable match tree ([Config]). The request path asks
// it one question per descriptor ([Config.Match]) and writes one key ([Match.AppendKey]); neither allocates. Package
// descriptors/file watches a directory; other sources implement [Source].
package descriptors
