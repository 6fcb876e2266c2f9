package settings

import (
	"os"
	"strconv"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// Files are the variables that say how descriptor files are read, and what holds where they say nothing.
type Files struct {
	Algorithm    descriptors.Algorithm `envconfig:"ALGORITHM" default:"sliding_window"`
	KeyFormat    descriptors.KeyFormat `envconfig:"KEY_FORMAT" default:"weir"`
	MergeDomains bool                  `envconfig:"MERGE_DOMAIN_CONFIG" default:"false"`
	OnFailure    descriptors.Policy    `envconfig:"ON_BACKEND_FAILURE" default:"allow"`

	FailureAsked bool `ignored:"true"` // ON_BACKEND_FAILURE is set
	AsRatelimit  bool `ignored:"true"` // what envoyproxy/ratelimit takes is taken
}

// ReadFiles reads only these variables, for a tool that does nothing else. Those that the environment of this process does
// not set have the values that are given, by their names: the environment of another process, of which they are known.
func ReadFiles(as Program, given map[string]string) (Files, error) {
	var f Files
	if err := process(as, &f); err != nil {
		return f, err
	}
	if as.isRatelimits() {
		f.asRatelimit()
	}
	_, f.FailureAsked = os.LookupEnv("ON_BACKEND_FAILURE")
	for _, v := range []struct {
		name string
		read func(value string) error
	}{
		{"ALGORITHM", func(value string) (err error) { f.Algorithm, err = descriptors.ParseAlgorithm(value); return err }},
		{"KEY_FORMAT", func(value string) error { return f.KeyFormat.UnmarshalText([]byte(value)) }},
		{"MERGE_DOMAIN_CONFIG", func(value string) (err error) { f.MergeDomains, err = strconv.ParseBool(value); return err }},
		{"ON_BACKEND_FAILURE", func(value string) error {
			f.FailureAsked = true
			return f.OnFailure.UnmarshalText([]byte(value))
		}},
	} {
		value, isGiven := given[v.name]
		if _, set := os.LookupEnv(v.name); set || !isGiven {
			continue
		}
		if err := v.read(value); err != nil {
			return f, require(false, v.name, value, err.Error())
		}
	}
	return f, nil
}

// Options returns how descriptor files are read.
func (f *Files) Options() yaml.Options {
	return yaml.Options{Algorithm: f.Algorithm, Keys: descriptors.Keys{Format: f.KeyFormat}, Merge: f.MergeDomains,
		AsRatelimit: f.AsRatelimit}
}

// asRatelimit gives variables that are not set what they are in the place of envoyproxy/ratelimit.
func (f *Files) asRatelimit() {
	f.AsRatelimit = true
	if _, set := os.LookupEnv("ALGORITHM"); !set {
		f.Algorithm = descriptors.FixedWindow
	}
	if _, set := os.LookupEnv("KEY_FORMAT"); !set && f.Algorithm == descriptors.FixedWindow {
		f.KeyFormat = descriptors.KeysOfRatelimit
	}
	if _, set := os.LookupEnv("ON_BACKEND_FAILURE"); !set {
		f.OnFailure = descriptors.PolicyError
	}
}
