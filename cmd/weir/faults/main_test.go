package faults_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

var (
	long = flag.Bool("long", false,
		"the long form: 2,000 calls a second, faults as long as the matrix has them, one row after the other")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "chooses the keys that are asked for")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(process.RunWith(m, &weirBinary, &envoyBinary))
}

// form chooses between the short and the long form.
func form[T any](short, theLong T) T {
	if *long {
		return theLong
	}
	return short
}
