package redistest

import "github.com/weirproxy/weir/backend/backendtest/process"

// Log is process.Output, and Eventually is process.Eventually, under the names that tests of Redis have for them.
type Log = process.Output

// Eventually is process.Eventually.
var Eventually = process.Eventually
