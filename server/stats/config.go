package stats

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

var (
	configInfo = prometheus.NewDesc("weir_config_info",
		"1; the label is a hash of the domains and rules in force: replicas that show another one decide otherwise.", []string{"hash"}, nil)
	configRules         = prometheus.NewDesc("weir_config_rules", "Rules in force.", nil, nil)
	configBrokenDomains = prometheus.NewDesc("weir_config_broken_domains",
		"Domains whose files have errors and never were good, so that their requests get no verdict.", nil, nil)
)

// sendConfig sends the configuration in force. Before the first it has no rules, and no hash.
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

// sendOutcomes sends requests by outcome. [limit.Unconfigured] has no name of its own: it is a kind of Unavailable.
func sendOutcomes(to chan<- prometheus.Metric, d *prometheus.Desc, n [limit.Results]uint64, labels ...string) {
	n[limit.Unavailable] += n[limit.Unconfigured]
	for o := limit.OK; o < limit.Unconfigured; o++ {
		send(to, d, prometheus.CounterValue, float64(n[o]), append(labels, o.String())...)
	}
}
