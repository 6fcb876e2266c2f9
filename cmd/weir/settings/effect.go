package settings

import (
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// idle is a group of variables without effect.
type idle struct {
	names string                  // separated by spaces; one that ends in * is for all that begin so
	same  string                  // a value that asks for what weir does anyway; "" is none
	when  func(s *Settings) bool  // which other settings make it so; nil is any
	takes func(value string) bool // which values have no effect; nil is any
	why   string
}

// idles are all groups. A variable is told of once, by the first that fits.
var idles = slices.Concat(idleAlways, idleValues, idleListeners, idleSources, idleStatistics, idleCounters, idleLogs)

// What weir does by itself, or not at all.
var idleAlways = []idle{
	{names: `MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS MEMCACHE_SRV MEMCACHE_SRV_REFRESH MEMCACHE_TLS MEMCACHE_TLS_CLIENT_CERT
		MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION`, same: "false",
		why: "weir does not count in memcached"},
	{names: `TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID
		TRACING_EXPORTER_PROTOCOL TRACING_SAMPLING_RATE OTEL_EXPORTER_*`, same: "false",
		why: "weir sends no traces"},
	{names: "GRPC_SERVER_TLS_CA_CERT",
		why: "envoyproxy/ratelimit does not read it either; GRPC_CLIENT_TLS_CACERT asks clients for certificates"},
	{names: "FORCE_START_WITHOUT_INITIAL_CONFIG", same: "true",
		why: "weir always starts, with a configuration or without"},
	{names: "REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT REDIS_PERSECOND_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_LIMIT", same: "0",
		why: "what comes while a server is being asked leaves together in the next batch, within 1 ms"},
	{names: "REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", same: "0",
		why: "all servers are asked at the same time"},
	{names: "REDIS_POOL_ON_EMPTY_BEHAVIOR REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", same: "WAIT",
		why: "without a free connection a check waits for one, at most REDIS_TIMEOUT"},
	{names: "DD_ORIGIN_DETECTION_ENABLED", same: "false", why: "weir tells DogStatsD of DD_ENTITY_ID alone"},
	{names: "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR", same: "true",
		why: "connections that lead to a replica are always closed"},
}

// Values that envoyproxy/ratelimit takes, and that cannot be meant: see tolerate.
var idleValues = []idle{
	{names: "NEAR_LIMIT_RATIO", takes: func(value string) bool {
		ratio, err := strconv.ParseFloat(value, 32)
		return err == nil && (ratio < 0 || ratio > 1 || math.IsNaN(ratio))
	}, why: "a ratio lies between 0 and 1, and the nearest of them holds"},
	{names: `LIMIT_LIMIT_HEADER LIMIT_REMAINING_HEADER LIMIT_RESET_HEADER
		LIMIT_REQUEST_LIMIT_HEADER LIMIT_REQUEST_REMAINING_HEADER LIMIT_REQUEST_RESET_HEADER`,
		takes: func(value string) bool { return checkHeader("", value) != nil },
		why:   "no header can have this name, so it is left out"},
	{names: `GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE REDIS_TIMEOUT REDIS_PERSECOND_TIMEOUT
		REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME EXPIRATION_JITTER_MAX_SECONDS
		LOCAL_CACHE_SIZE_IN_BYTES CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL XDS_CLIENT_BACKOFF_INITIAL_INTERVAL
		XDS_CLIENT_BACKOFF_MAX_INTERVAL XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES`,
		takes: func(value string) bool { return strings.HasPrefix(value, "-") },
		why:   "it cannot be negative, and is taken as 0"},
	{names: "LOG_FORMAT", takes: func(value string) bool { return !isLogFormat(value) }, why: "text and json are known, and text holds"},
	{names: "GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE", takes: func(value string) bool {
		age, err := time.ParseDuration(value)
		return err == nil && age > 0 && age < shortestAge
	}, why: "it is taken as 1ms"},
	{names: "STATSD_PROTOCOL", takes: func(value string) bool { return !isStatsdProtocol(value) }, why: "tcp and udp are known, and tcp holds"},
	{names: "REDIS_URL REDIS_PERSECOND_URL", takes: hasOtherParameters,
		why: "of its parameters only username, password and db are read"},
}

var idleListeners = []idle{
	{names: "GRPC_HOST GRPC_PORT", when: func(s *Settings) bool { return s.GRPCUnix != "" }, why: "GRPC_UDS goes before"},
	{names: "GRPC_SERVER_TLS_CERT GRPC_SERVER_TLS_KEY GRPC_CLIENT_TLS_CACERT GRPC_CLIENT_TLS_SAN",
		when: func(s *Settings) bool { return !s.ServerTLS }, why: "GRPC_SERVER_USE_TLS is not true"},
	{names: "GRPC_CLIENT_TLS_SAN", when: func(s *Settings) bool { return s.ClientCA == "" }, why: "GRPC_CLIENT_TLS_CACERT is not set"},
	{names: "LIMIT_LIMIT_HEADER LIMIT_REMAINING_HEADER LIMIT_RESET_HEADER",
		when: func(s *Settings) bool { return !s.LimitHeaders }, why: "LIMIT_RESPONSE_HEADERS_ENABLED is not true"},
	{names: "LIMIT_REQUEST_LIMIT_HEADER LIMIT_REQUEST_REMAINING_HEADER LIMIT_REQUEST_RESET_HEADER",
		when: func(s *Settings) bool { return !s.RequestHeadersOn }, why: "LIMIT_REQUEST_HEADERS_ENABLED is not true"},
}

var idleSources = []idle{
	{names: "RUNTIME_ROOT RUNTIME_SUBDIRECTORY RUNTIME_APPDIRECTORY RUNTIME_WATCH_ROOT RUNTIME_IGNOREDOTFILES",
		when: (*Settings).FromServer, why: "CONFIG_TYPE is GRPC_XDS_SOTW"},
	{names: "RUNTIME_IGNOREDOTFILES", same: "true", why: "files whose names begin with a dot are never read"},
	{names: `CONFIG_GRPC_XDS_NODE_ID CONFIG_GRPC_XDS_NODE_METADATA CONFIG_GRPC_XDS_SERVER_URL
		CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS CONFIG_GRPC_XDS_SERVER_USE_TLS
		CONFIG_GRPC_XDS_SERVER_TLS_CACERT CONFIG_GRPC_XDS_SERVER_TLS_SAN CONFIG_GRPC_XDS_CLIENT_TLS_CERT
		CONFIG_GRPC_XDS_CLIENT_TLS_KEY XDS_CLIENT_BACKOFF_INITIAL_INTERVAL XDS_CLIENT_BACKOFF_MAX_INTERVAL
		XDS_CLIENT_BACKOFF_RANDOM_FACTOR XDS_CLIENT_BACKOFF_JITTER XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES`, same: "false",
		when: func(s *Settings) bool { return !s.FromServer() }, why: "CONFIG_TYPE is not GRPC_XDS_SOTW"},
	{names: `CONFIG_GRPC_XDS_SERVER_TLS_CACERT CONFIG_GRPC_XDS_SERVER_TLS_SAN CONFIG_GRPC_XDS_CLIENT_TLS_CERT
		CONFIG_GRPC_XDS_CLIENT_TLS_KEY`,
		when: func(s *Settings) bool { return !s.XDSServerTLS }, why: "CONFIG_GRPC_XDS_SERVER_USE_TLS is not true"},
	{names: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
		when: func(s *Settings) bool { return s.XDSClientCert == "" }, why: "a certificate and its key go together"},
}

var idleStatistics = []idle{
	{names: `USE_STATSD STATSD_HOST STATSD_PORT STATSD_PROTOCOL USE_DOG_STATSD USE_DOG_STATSD_MOGRIFIERS USE_PROMETHEUS PROMETHEUS_ADDR
		PROMETHEUS_PATH PROMETHEUS_MAPPER_YAML PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS EXTRA_TAGS STATS_FLUSH_INTERVAL`,
		same: "false", when: func(s *Settings) bool { return s.DisableStats }, why: "DISABLE_STATS is true"},
	{names: "PROMETHEUS_ADDR PROMETHEUS_PATH PROMETHEUS_MAPPER_YAML PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", same: "false",
		when: func(s *Settings) bool { return !s.UsePrometheus }, why: "USE_PROMETHEUS is not true"},
	{names: "STATSD_PROTOCOL", when: func(s *Settings) bool { return !s.UseStatsd }, why: "USE_STATSD is not true"},
	{names: "STATSD_HOST STATSD_PORT STATS_FLUSH_INTERVAL",
		when: func(s *Settings) bool { return !s.UseStatsd && !s.UseDogStatsd }, why: "neither USE_STATSD nor USE_DOG_STATSD is true"},
	{names: "USE_DOG_STATSD_MOGRIFIERS",
		when: func(s *Settings) bool { return !s.UseDogStatsd }, why: "USE_DOG_STATSD is not true"},
	{names: "EXTRA_TAGS", when: func(s *Settings) bool { return !s.UseStatsd && !s.UseDogStatsd && !s.UsePrometheus },
		why: "none of USE_STATSD, USE_DOG_STATSD and USE_PROMETHEUS is true"},
}

// Counters, and the history beside them.
var idleCounters = []idle{
	{names: `REDIS_URL REDIS_URL_FILE REDIS_PERSECOND REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL
		REDIS_STARTUP_MAX_ELAPSED_TIME REDIS_HEALTH_CHECK_ACTIVE_CONNECTION RING_ON_NODE_LOSS ON_BACKEND_FAILURE REPLICAS
		KEY_FORMAT CACHE_KEY_PREFIX EXPIRATION_JITTER_MAX_SECONDS LOCAL_CACHE_SIZE_IN_BYTES USE_CALENDAR_MONTH_RATE_LIMIT`,
		same: "false", when: (*Settings).inMemory, why: "counters are in memory"},
	{names: `REDIS_TYPE REDIS_SOCKET_TYPE REDIS_AUTH REDIS_AUTH_FILE REDIS_SENTINEL_AUTH REDIS_POOL_SIZE REDIS_TIMEOUT REDIS_TLS
		REDIS_TLS_CACERT REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY REDIS_TLS_SKIP_HOSTNAME_VERIFICATION REDIS_TLS_SERVER_NAME`,
		same: "false", when: func(s *Settings) bool { return s.inMemory() && s.HistoryVariable() == "" }, why: "counters are in memory"},
	{names: "MEMORY_MAX_KEYS DATA_SAVE_INTERVAL", when: func(s *Settings) bool { return !s.inMemory() }, why: "counters are in Redis"},
	{names: "DATA_DIR", when: func(s *Settings) bool { return !s.inMemory() && (s.HistoryInRedis() || !s.KeepHistory) },
		why: "neither counters nor a history are kept there"},
	{names: "EXPIRATION_JITTER_MAX_SECONDS USE_CALENDAR_MONTH_RATE_LIMIT", same: "false",
		when: func(s *Settings) bool { return s.KeyFormat != descriptors.KeysOfRatelimit }, why: "KEY_FORMAT is not ratelimit"},
	{names: "REDIS_URL", when: func(s *Settings) bool { return s.Redis.URLFile != "" }, why: "REDIS_URL_FILE goes before"},
	{names: `REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL REDIS_PERSECOND_URL_FILE REDIS_PERSECOND_SOCKET_TYPE REDIS_PERSECOND_AUTH
		REDIS_PERSECOND_AUTH_FILE REDIS_PERSECOND_SENTINEL_AUTH REDIS_PERSECOND_POOL_SIZE REDIS_PERSECOND_TIMEOUT
		REDIS_PERSECOND_TLS REDIS_PERSECOND_TLS_SERVER_NAME`, same: "false",
		when: func(s *Settings) bool { return s.inMemory() || !s.BothRedis.Persecond }, why: "no Redis is for limits per second"},
	{names: `REDIS_TLS_CACERT REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY REDIS_TLS_SKIP_HOSTNAME_VERIFICATION REDIS_TLS_SERVER_NAME
		REDIS_PERSECOND_TLS_SERVER_NAME`, same: "false",
		when: func(s *Settings) bool { return !s.tlsToRedis() }, why: "no Redis is reached by TLS"},
	{names: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", same: "false", when: func(s *Settings) bool {
		return s.Redis.TLSServerName != "" && (!s.BothRedis.Persecond || s.PerSecond.TLSServerName != "")
	}, why: "REDIS_TLS_SERVER_NAME goes before"},
	{names: "REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY",
		when: func(s *Settings) bool { return s.BothRedis.TLSClientCert == "" }, why: "a certificate and its key go together"},
	{names: "REDIS_SOCKET_TYPE", same: "tcp",
		when: func(s *Settings) bool { return s.Redis.Type != topology.Single }, why: "more servers than one are always reached by TCP"},
	{names: "REDIS_SENTINEL_AUTH", when: func(s *Settings) bool { return s.Redis.Type != topology.Sentinel },
		why: "REDIS_TYPE is not sentinel"},
	{names: "RING_ON_NODE_LOSS", same: "remap",
		when: func(s *Settings) bool { return s.Redis.Type != topology.Ring && s.PerSecond.Type != topology.Ring }, why: "no Redis is a ring"},
	{names: "REDIS_HISTORY_URL REDIS_HISTORY_URL_FILE HISTORY_*", same: "false", when: func(s *Settings) bool { return !s.KeepHistory },
		why: "no history is kept"},
	{names: "REDIS_HISTORY_URL", when: func(s *Settings) bool { return s.HistoryURLFile != "" }, why: "REDIS_HISTORY_URL_FILE goes before"},
	{names: "HISTORY_QUERY_*", when: func(s *Settings) bool { return !s.History.Query }, why: "HISTORY_QUERY is false"},
}

var idleLogs = []idle{
	{names: "DENIAL_LOG_INTERVAL", same: "0", when: func(s *Settings) bool { return s.LogLevel > logLevel(slog.LevelInfo) },
		why: "LOG_LEVEL leaves out lines of level info"},
	{names: "DENIAL_LOG_VALUES", same: "false", when: func(s *Settings) bool { return s.DenialLogEvery == 0 },
		why: "DENIAL_LOG_INTERVAL is 0"},
}

// inMemory reports whether counters are in this process.
func (s *Settings) inMemory() bool { return s.BackendType != "redis" }

// tlsToRedis reports whether a Redis is reached by TLS, as far as the environment tells.
func (s *Settings) tlsToRedis() bool {
	uses := s.HistoryURLFile != "" || strings.Contains(s.HistoryURL, "rediss:")
	for _, r := range []*Redis{&s.Redis, &s.PerSecond} {
		uses = uses || r.TLS || r.URLFile != "" || strings.Contains(strings.ToLower(r.URL), "rediss:")
	}
	return uses
}

// WarnOfIdle logs, in one line, which variables of an environment of NAME=value are set and have no effect, and why. It
// shows no value: some are secrets.
func (s *Settings) WarnOfIdle(environment []string, log *slog.Logger) {
	set := make(map[string]string)
	for _, variable := range environment {
		if name, value, _ := strings.Cut(variable, "="); value != "" {
			set[name] = value
		}
	}
	var groups []string
	for i := range idles {
		found := idles[i].among(set, s)
		if len(found) == 0 {
			continue
		}
		for _, name := range found {
			delete(set, name)
		}
		groups = append(groups, strings.Join(found, ", ")+" ("+idles[i].why+")")
	}
	if len(groups) > 0 {
		log.Warn("variables are set without the effect that they ask for", "variables", strings.Join(groups, "; "))
	}
}

// among returns which variables of the group are set without effect, in the order of names.
func (g *idle) among(set map[string]string, s *Settings) []string {
	if g.when != nil && !g.when(s) {
		return nil
	}
	patterns := strings.Fields(g.names)
	var found []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fits := slices.ContainsFunc(patterns, func(pattern string) bool {
			prefix, begins := strings.CutSuffix(pattern, "*")
			return name == pattern || begins && strings.HasPrefix(name, prefix)
		})
		if value := set[name]; fits && !means(value, g.same) && (g.takes == nil || g.takes(value)) {
			found = append(found, name)
		}
	}
	return found
}

// means reports whether two values of a variable mean the same.
func means(value, same string) bool {
	if strings.EqualFold(value, same) {
		return true
	}
	aBool, aErr := strconv.ParseBool(value)
	bBool, bErr := strconv.ParseBool(same)
	if aErr == nil && bErr == nil {
		return aBool == bBool
	}
	aLong, aErr := time.ParseDuration(value)
	bLong, bErr := time.ParseDuration(same)
	return aErr == nil && bErr == nil && aLong == bLong
}
