package descriptors

import (
	"context"
	"strings"
)

// Rule is what a configuration says about the descriptors that match it. It is immutable and shared by all requests.
type Rule struct {
	Domain    string
	Path      string  // keys and configured values, percent-escaped: user/path=%2Fpay
	Where     string  // file:line of its descriptor, for people
	Limits    []Limit // none if Unlimited
	Charge    Charge
	Unlimited bool   // matched, never counted, never denied
	Shadow    bool   // counted, never denied
	Message   string // body of the 429; "" sends none
}

// Source delivers configurations.
type Source interface {
	// Run calls apply with each new configuration until ctx ends. An error of apply means that the configuration was
	// rejected; the last good one stays in force, and Run goes on. Run returns ctx's error, or why it cannot go on.
	Run(ctx context.Context, apply func(*Config) error) error
}

// PathSegment escapes one level of a rule's path. The value is left out when the rule has none.
func PathSegment(key, value string) string {
	if value == "" {
		return pathEscaper.Replace(key)
	}
	return pathEscaper.Replace(key) + "=" + pathEscaper.Replace(value)
}

// ReadablePath is a rule's path unescaped, as people are shown it.
func ReadablePath(path string) string { return pathUnescaper.Replace(path) }

var (
	pathEscaper   = strings.NewReplacer("%", "%25", "/", "%2F", "=", "%3D")
	pathUnescaper = strings.NewReplacer("%25", "%", "%2F", "/", "%3D", "=")
)
