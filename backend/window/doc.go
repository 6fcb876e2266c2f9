// Package window holds the arithmetic of rate limits, pure: time is an argument, nothing is shared, nothing waits.
//
// A hit goes into the bucket of its moment, on every level of a ladder of widths; those that cover the last W make up
// the count. [Cells] gives it from the finest level and a running sum; it is what the memory store keeps. A sliding log
// has no buckets: its Cells are instants. A token bucket has neither: its [Tokens] are one number that leaks. Buckets
// of package backendtest adds up the finest buckets anew at each question: it is the oracle of every store.
// [Decide] is what all limits of one descriptor together decide.
package window
