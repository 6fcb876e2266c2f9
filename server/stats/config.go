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
	configDomains       = prometheus.NewDesc("weir_config_domains", "Domains in force, without those that are broken.", nil, nil)
	configBrokenDomains = prometheus.NewDesc("weir_config_broken_domains",
		"Domains whose files have errors and never were good, so that their requests get no verdict.", nil, nil)
)

// configCollector reads the configuration in force at each scrape. Before the first it has no rules, and no hash.
type configCollector struct{ limiter *limit.Limiter }

func (configCollector) Describe(to chan<- *prometheus.Desc) {
	to <- configInfo
	to <- configRules
	to <- configDomains
	to <- configBrokenDomains
}

func (c configCollector) Collect(to chan<- prometheus.Metric) {
	config := c.limiter.Config()
	if config == nil {
		config = new(descriptors.Config)
	} else {
		to <- prometheus.MustNewConstMetric(configInfo, prometheus.GaugeValue, 1, config.Hash())
	}
	for desc, n := range map[*prometheus.Desc]int{
		configRules: len(config.Rules()), configDomains: config.Domains(), configBrokenDomains: len(config.BrokenNames()),
	} {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n))
	}
}

var domainRequests = prometheus.NewDesc("weir_domain_requests_total",
	"Rate-limit requests decided, by domain and outcome. All domains that no file configures are __unknown__; __none__ are "+
		"requests that name no domain, or came before there was a configuration.", []string{"domain", "outcome"}, nil)

// domainsCollector reads the requests by domain at each scrape.
type domainsCollector struct{ limiter *limit.Limiter }

func (domainsCollector) Describe(to chan<- *prometheus.Desc) { to <- domainRequests }

func (c domainsCollector) Collect(to chan<- prometheus.Metric) {
	for _, d := range c.limiter.Requests() {
		d.Outcomes[limit.Unavailable] += d.Outcomes[limit.Unconfigured]
		for _, o := range outcomes {
			to <- prometheus.MustNewConstMetric(domainRequests, prometheus.CounterValue, float64(d.Outcomes[o]), d.Domain, o.String())
		}
	}
}

// outcomes are those that have a name of their own; [limit.Unconfigured] is counted under that of Unavailable.
var outcomes = []limit.Outcome{limit.OK, limit.OverLimit, limit.Invalid, limit.Unavailable, limit.Shadowed}
