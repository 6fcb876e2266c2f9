package descriptors

import "strings"

// Policy decides about hits while the store is away.
type Policy uint8

const (
	// PolicyDefault is the zero value: the policy of the process, ON_BACKEND_FAILURE.
	PolicyDefault Policy = iota
	// PolicyAllow lets them pass.
	PolicyAllow
	// PolicyDeny refuses them.
	PolicyDeny
	// PolicyLocal counts them in the process, under the limit divided by the number of live replicas.
	PolicyLocal
	// PolicyError gives no verdict: the RPC fails with UNAVAILABLE, and Envoy's failure_mode_deny decides.
	PolicyError
	// Policies is the number of policies, with the default one.
	Policies = int(PolicyError) + 1
)

// PolicyNames lists what [ParsePolicy] accepts, in the order of the policies, for error messages.
const PolicyNames = "allow, deny, local, error"

var policyNames = append([]string{"default"}, strings.Split(PolicyNames, ", ")...)

// ParsePolicy reads the name that files and the ON_BACKEND_FAILURE variable use.
func ParsePolicy(name string) (Policy, error) {
	return parseName[Policy](name, "a failure policy", PolicyNames)
}

// UnmarshalText reads a name as [ParsePolicy] does.
func (p *Policy) UnmarshalText(name []byte) (err error) {
	*p, err = ParsePolicy(string(name))
	return err
}

// Effect returns the predicate of a sentence about hits while the store is away, such as "pass, uncounted".
func (p Policy) Effect() string {
	return [Policies]string{PolicyAllow: "pass, uncounted", PolicyDeny: "are denied",
		PolicyLocal: "are counted by each replica, under its share of the limit",
		PolicyError: "get no verdict: Envoy's failure_mode_deny decides"}[p]
}

// String returns the policy's name in files; the zero value has "default".
func (p Policy) String() string { return policyNames[p] }
