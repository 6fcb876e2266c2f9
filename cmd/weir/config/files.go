package config

import (
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// ReadFiles reads only these variables, for a tool that does nothing else.
func ReadFiles(e Environment) (f Files, err error) {
	err = e.fill(&f)
	f.FailureAsked = e["ON_BACKEND_FAILURE"] != ""
	return f, err
}

// Options returns how descriptor files are read.
func (f *Files) Options() yaml.Options {
	return yaml.Options{Algorithm: f.Algorithm, Keys: descriptors.Keys{Format: f.KeyFormat}, Merge: f.MergeDomains,
		Lenient: f.Lenient}
}
