package settings

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"github.com/weirproxy/weir/descriptors"
)

// meant are names that other programs have for what weir has a variable for.
var meant = map[string]string{
	"REDIS_HOST": "REDIS_URL", "REDIS_ADDR": "REDIS_URL", "REDIS_ADDRESS": "REDIS_URL", "REDIS_ADDRESSES": "REDIS_URL",
	"REDIS_HOSTS": "REDIS_URL", "REDIS_PASSWORD": "REDIS_AUTH", "REDIS_PASS": "REDIS_AUTH",
}

const (
	// shortest is the length of names that are compared: shorter ones, such as HOST, look like those of any program.
	shortest = 7
	// longName is the length from which two slips are forgiven.
	longName = 10
)

// serviceLink matches what Kubernetes and Docker set for a service, whatever its name: REDIS_SERVICE_HOST,
// REDIS_SERVICE_PORT_TCP, REDIS_PORT_6379_TCP_ADDR. A REDIS_PORT is told by its value.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// isLinkValue reports whether a value is what Kubernetes sets NAME_PORT to: tcp://10.0.0.1:6379.
func isLinkValue(value string) bool {
	protocol, _, is := strings.Cut(value, "://")
	return is && slices.Contains([]string{"tcp", "udp", "sctp"}, protocol)
}

// WarnOfUnknown logs, in one line, which variables of an environment of NAME=value nobody reads although their names are
// nearly those of variables that weir reads, set to nothing or not. It shows no value: some are secrets.
func WarnOfUnknown(environment []string, log *slog.Logger) {
	known := knownVariables()
	lower := make([]string, 0, len(known))
	for name := range known {
		if len(name) >= shortest {
			lower = append(lower, strings.ToLower(name))
		}
	}
	slices.Sort(lower)
	var slips []string
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if known[name] || isOfFamily(name) || serviceLink.MatchString(name) || isLinkValue(value) {
			continue
		}
		if near := nearest(name, lower); near != "" {
			slips = append(slips, descriptors.Shown(name)+" (did you mean "+near+"?)")
		}
	}
	slices.Sort(slips)
	if len(slips) > 0 {
		log.Warn("variables are set that weir does not read: correct their names, or remove them", "variables", strings.Join(slips, "; "))
	}
}

// nearest returns the variable that somebody who set name most likely meant; "" for a name of something else.
func nearest(name string, lower []string) string {
	if is := meant[name]; is != "" {
		return is
	}
	slips := 1
	if len(name) >= longName {
		slips = 2
	}
	near := descriptors.Nearest(name, lower)
	if near == "" || len(name) < shortest || descriptors.Distance(strings.ToLower(name), near) > slips {
		return ""
	}
	return strings.ToUpper(near)
}

// knownVariables returns the names of the variables that weir reads, and of those that it says have no effect.
func knownVariables() map[string]bool {
	known := make(map[string]bool)
	var names strings.Builder
	// The text is a constant, so that there is no error but of a Settings that this package cannot read either.
	if err := envconfig.Usagef("", new(Settings), &names, "{{range .}}{{usage_key .}}\n{{end}}"); err == nil {
		for _, name := range strings.Fields(names.String()) {
			known[name] = true
		}
	}
	for i := range idles {
		for _, name := range strings.Fields(idles[i].names) {
			known[name] = true
		}
	}
	return known
}

// isOfFamily reports whether a name is one of those of which weir knows the beginning alone.
func isOfFamily(name string) bool {
	return slices.ContainsFunc(idles, func(g idle) bool {
		return slices.ContainsFunc(strings.Fields(g.names), func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return open && prefix != "HISTORY_" && strings.HasPrefix(name, prefix)
		})
	})
}
