// Package faults has no code of its own: its tests run the weir binary under load, break what it counts in, and judge
// what it answered by the counts. table_test.go is the table of faults, a readable row each; README.md says how a row
// is judged.
package faults
