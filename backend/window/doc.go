// Package window has the arithmetic of rate limits. Its functions are pure: the time is an argument, and nothing is
// shared.
//
// A hit goes into the bucket of its moment; the buckets that cover the last window make up the count. [Cells] has these
// buckets and their sum; a sliding log is Cells whose buckets are instants. [Tokens] is a token bucket: a number that
// leaks. [Decide] decides a check by all limits of a descriptor. The type Buckets of package backendtest, which adds up
// all buckets at each check, is the oracle in tests of every store.
package window
