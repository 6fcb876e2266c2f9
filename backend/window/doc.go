// Package window holds the arithmetic of rate limits, pure: time is an argument, nothing is shared, nothing waits.
//
// A hit goes into the bucket of its moment, on every level of widths; the buckets that cover the last W make up the count.
// [Cells], which the memory store keeps, has the finest level and a running sum. A sliding log has no buckets: its Cells are
// instants. A token bucket has neither: its [Tokens] are a number that leaks. Buckets of package backendtest adds up the
// finest buckets at each question: it is the oracle of every store. [Decide] decides a check by all limits of a descriptor.
package window
