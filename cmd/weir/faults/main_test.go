package faults_test

import "flag"

var (
	long = flag.Bool("long", false,
		"the long form: 2,000 calls a second, faults as long as the matrix has them, one row after the other")
	seed = flag.Uint64("seed", 1, "chooses the keys that are asked for")
)

// form chooses between the other forms and the long one.
func form[T any](other, theLong T) T {
	if *long {
		return theLong
	}
	return other
}
