package stats

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Redis has the metrics of the Redis servers that count. A process may use two Redis deployments, which have different
// labels. All its methods may be called by any number of goroutines.
type Redis struct {
	answer, wait *prometheus.HistogramVec
	process      Process

	mu         sync.Mutex
	references map[[2]string]int // how many RedisServers there are, by Redis and server
}

// redisSeconds are the buckets of both histograms: from the latency of a nearby server to the longest wait of a caller.
var redisSeconds = []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 250e-3, 500e-3}

var redisLabels = []string{"redis", "server"}

var breakerOpen = prometheus.NewDesc("weir_redis_breaker_open",
	"1 while the circuit breaker is open: the server does not answer in time, and gets no checks; else 0.", redisLabels, nil)

var foreignLibrary = prometheus.NewDesc("weir_redis_foreign_library",
	"1 while weir does not call the server's functions, because somebody else has replaced weir's library; else 0.", redisLabels, nil)

// RegisterRedis adds the metrics of Redis servers. Call it once.
func (m *Metrics) RegisterRedis() *Redis {
	seconds := func(name, help string) *prometheus.HistogramVec {
		o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: redisSeconds}
		return prometheus.NewHistogramVec(o, redisLabels)
	}
	r := &Redis{
		answer:     seconds("weir_redis_answer_seconds", "Time that a server took to answer a batch."),
		wait:       seconds("weir_redis_wait_seconds", "Time that a call waited until its batch was sent to the server."),
		process:    m.Process,
		references: make(map[[2]string]int),
	}
	m.registry.MustRegister(r.answer, r.wait)
	return r
}

// RegisterServers adds gauges of the open breakers and the foreign libraries of a Redis's servers. Each scrape calls
// servers. Servers of the same name share one series.
func (r *Redis) RegisterServers(redis string, servers func(yield func(server string, away, foreign bool))) {
	r.process.register(func(to chan<- prometheus.Metric) {
		open, foreign := make(map[string]float64), make(map[string]float64)
		servers(func(server string, isAway, isForeign bool) {
			open[server] += 0
			if isAway {
				open[server] = 1
			}
			if isForeign {
				foreign[server] = 1
			}
		})
		for server, value := range open {
			send(to, breakerOpen, prometheus.GaugeValue, value, redis, server)
			send(to, foreignLibrary, prometheus.GaugeValue, foreign[server], redis, server)
		}
	})
}

// Server returns the metrics of a server. Call its Gone when the server is no longer used.
func (r *Redis) Server(redis, server string) *RedisServer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.references[[2]string{redis, server}]++
	return &RedisServer{
		parent: r, labels: [2]string{redis, server},
		answer: r.answer.WithLabelValues(redis, server), wait: r.wait.WithLabelValues(redis, server),
	}
}

// RedisServer has the metrics of one server.
type RedisServer struct {
	parent       *Redis
	labels       [2]string
	answer, wait prometheus.Observer
}

// Answered records how long the server took to answer a batch.
func (s *RedisServer) Answered(took time.Duration) { s.answer.Observe(took.Seconds()) }

// Waited records how long a call waited until its batch was sent.
func (s *RedisServer) Waited(took time.Duration) { s.wait.Observe(took.Seconds()) }

// Gone deletes the server's series, unless another RedisServer uses them.
func (s *RedisServer) Gone() {
	s.parent.mu.Lock()
	defer s.parent.mu.Unlock()
	if s.parent.references[s.labels]--; s.parent.references[s.labels] == 0 {
		delete(s.parent.references, s.labels)
		s.parent.answer.DeleteLabelValues(s.labels[:]...)
		s.parent.wait.DeleteLabelValues(s.labels[:]...)
	}
}
