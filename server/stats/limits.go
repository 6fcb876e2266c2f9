package stats

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// RegisterLimiter adds metrics of the configuration in force, of requests by domain, of decisions while the store was
// away, and of refunds.
func (m *Metrics) RegisterLimiter(l *limit.Limiter) {
	m.register(func(to chan<- prometheus.Metric) {
		sendDegraded(l, to)
		sendLimits(l, to)
		sendConfig(l, to)
		sendDomains(l, to)
	})
	for result, n := range map[string]*atomic.Uint64{"done": &l.Refunds.Done, "failed": &l.Refunds.Failed} {
		m.RegisterCounter("weir_refunds_on_deny_total", "Checks that a refused request charged to descriptors that are not over, by "+
			"whether they were given back (refund_on_deny).", map[string]string{"result": result},
			func() float64 { return float64(n.Load()) })
	}
}

var degradedTotal = prometheus.NewDesc("weir_degraded_total",
	"Decisions made while the store gave no answer, by why it gave none and the failure policy that decided.",
	[]string{"reason", "policy"}, nil)

// sendDegraded sends the totals of decisions without a store.
func sendDegraded(l *limit.Limiter, to chan<- prometheus.Metric) {
	for r := range backend.Reasons {
		for p := range descriptors.Policies {
			reason, policy := backend.Reason(r), descriptors.Policy(p)
			n := l.DegradedTotal(reason, policy)
			if n > 0 || reason != 0 && policy != descriptors.PolicyDefault {
				send(to, degradedTotal, prometheus.CounterValue, float64(n), reason.String(), policy.String())
			}
		}
	}
}

var limitRequests = prometheus.NewDesc("weir_limit_requests",
	"Requests that a limit of a rule allows, as configured.", []string{"domain", "path", "limit"}, nil)

// sendLimits sends the limits of the configuration in force.
func sendLimits(limiter *limit.Limiter, to chan<- prometheus.Metric) {
	for _, rule := range limiter.Config().Rules() {
		for i, l := range rule.Limits {
			sameText := func(other descriptors.Limit) bool { return other.String() == l.String() }
			if !slices.ContainsFunc(rule.Limits[:i], sameText) { // limits of two algorithms may have the same text
				send(to, limitRequests, prometheus.GaugeValue, float64(l.Requests), rule.Domain, rule.Path, l.String())
			}
		}
	}
}

var (
	configInfo = prometheus.NewDesc("weir_config_info",
		"Always 1. The label is a hash of the domains and rules in force: replicas with different hashes decide differently.",
		[]string{"hash"}, nil)
	configRules         = prometheus.NewDesc("weir_config_rules", "Rules in force.", nil, nil)
	configBrokenDomains = prometheus.NewDesc("weir_config_broken_domains",
		"Domains whose files have had errors since weir began, so that their requests get no verdict.", nil, nil)
)

// sendConfig sends metrics of the configuration in force. Without one there are no rules, and no hash.
func sendConfig(l *limit.Limiter, to chan<- prometheus.Metric) {
	c := l.Config()
	if c == nil {
		c = new(descriptors.Config)
	} else {
		send(to, configInfo, prometheus.GaugeValue, 1, c.Hash())
	}
	send(to, configRules, prometheus.GaugeValue, float64(len(c.Rules())))
	send(to, configBrokenDomains, prometheus.GaugeValue, float64(len(c.BrokenNames())))
}

var domainRequests = prometheus.NewDesc("weir_domain_requests_total",
	"Rate-limit requests decided, by domain and outcome. All domains that no file configures are __unknown__. Requests "+
		"without a domain, or before there was a configuration, have none.", []string{"domain", "outcome"}, nil)

// sendDomains sends the requests by domain.
func sendDomains(l *limit.Limiter, to chan<- prometheus.Metric) {
	for _, d := range l.Requests() {
		sendOutcomes(to, domainRequests, d.Results, d.Domain)
	}
}

// sendOutcomes sends requests by outcome. [limit.Unconfigured] is counted as Unavailable.
func sendOutcomes(to chan<- prometheus.Metric, d *prometheus.Desc, n [limit.Results]uint64, labels ...string) {
	n[limit.Unavailable] += n[limit.Unconfigured]
	for o := range limit.Result(limit.Results) {
		if o != limit.Unconfigured {
			send(to, d, prometheus.CounterValue, float64(n[o]), append(labels, o.String())...)
		}
	}
}
