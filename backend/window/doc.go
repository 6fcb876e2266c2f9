// Package window holds the arithmetic of rate limits, pure: time is an argument, nothing is shared, nothing waits.
//
// A hit goes into the bucket of its moment, on every level of a ladder of widths; those that cover the last W make up
// the count. [Cells] gives it from the finest level and a running sum; it is what the memory store keeps. A sliding log
// has no buckets: its Cells are instants. A token bucket has neither: its [Tokens] are one number that leaks. Buckets
// of package backendtest adds up the finest buckets anew at each question: it is the oracle of every store.
// [Decide] is what all limits of one descriptor together decide.
//
// # Example
//
// A day's window with levels of a second, a minute and an hour. At 23:30:33 the oldest moment that counts is 23:30:33
// of the day before. Its bucket counts whole until all of it is out, so the cover is 27 seconds (23:30:33 to
// 23:30:59), 29 minutes (23:31 to 23:59) and 24 hours (00 to 23, of which the last is still filling): 80 buckets for
// 86,400 seconds.
package window
