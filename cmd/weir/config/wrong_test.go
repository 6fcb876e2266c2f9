package config

import (
	"strings"
	"testing"
)

// wrong are environments, without spaces in their values, and what weir says of them, which names the variable at fault.
var wrong = map[string]string{
	"GRPC_PORT=eighty":                  "GRPC_PORT",
	"GRPC_PORT=70000":                   "GRPC_PORT",
	"ALGORITHM=leaky":                   "use one of sliding_window, fixed_window",
	"LOG_LEVEL=loud":                    "use one of debug, info, warning, error",
	"LOG_FORMAT=xml":                    "use text or json",
	"ADMIN_TOKEN_FILE=/dev/null":        "ADMIN_TOKEN_FILE: /dev/null must hold a token of 16",
	"ADMIN_READ_TOKEN_FILE=/dev/null":   "ADMIN_READ_TOKEN_FILE: /dev/null must hold a token of 16",
	"DRAIN_DELAY=5":                     "DRAIN_DELAY",
	"DRAIN_DELAY=-5s":                   "DRAIN_DELAY=-5s: it cannot be negative",
	"GRPC_MAX_CONNECTION_AGE=9ns":       "GRPC_MAX_CONNECTION_AGE=9ns: use 0 for no bound",
	"GRPC_MAX_CONNECTION_AGE_GRACE=-1h": "GRPC_MAX_CONNECTION_AGE_GRACE=-1h0m0s: use 0 for no bound",
	"MEMORY_MAX_KEYS=0":                 "MEMORY_MAX_KEYS=0: at least 1",
	"BACKEND_TYPE=mongo":                `BACKEND_TYPE="mongo": use memory, redis or memcache`,
	"BACKEND_TYPE=memcache":             "MEMCACHE_HOST_PORT or MEMCACHE_SRV must say where memcached is",
	"MEMCACHE_HOST_PORT=m:1 MEMCACHE_SRV=_m._tcp.example.com":   "MEMCACHE_HOST_PORT and MEMCACHE_SRV both say",
	"MEMCACHE_HOST_PORT=m:1 ALGORITHM=sliding_log":              "memcached cannot count a sliding_log",
	"MEMCACHE_HOST_PORT=m:1 MEMCACHE_TIMEOUT=0s":                "MEMCACHE_TIMEOUT=0s: use a time above 0",
	"MEMCACHE_SRV=_m._tcp.example.com MEMCACHE_SRV_REFRESH=-1s": "MEMCACHE_SRV_REFRESH=-1s: it cannot be negative",
	"MEMCACHE_HOST_PORT=memcached":                              `MEMCACHE_HOST_PORT: "memcached" is no host:port`,
	"MEMCACHE_HOST_PORT=m:1,:2":                                 `MEMCACHE_HOST_PORT: ":2" is no host:port`,
	"MEMCACHE_SRV=memcached.example.com":                        "MEMCACHE_SRV: \"memcached.example.com\" is no name of an SRV record, such as _memcache._tcp.example.com",
	"BACKEND_TYPE=redis":                                        "REDIS_URL or REDIS_URL_FILE must say where Redis is",
	"HISTORY=maybe":                                             "variable HISTORY=",
	"HISTORY_FLUSH_INTERVAL=5m":                                 "HISTORY_FLUSH_INTERVAL=5m0s: use 1s to 1m",
	"HISTORY_MAX_POINTS=0":                                      "HISTORY_MAX_POINTS=0: at least 1",
	"HISTORY_VALUES=1001":                                       "HISTORY_VALUES=1001: use 1 to 1000",
	"HISTORY_KEEP_MINUTES=30m":                                  "HISTORY_KEEP_MINUTES",
	"HISTORY_RETENTION=24h":                                     "coarser buckets are kept as long as finer ones",
	"HISTORY_QUERY_CONCURRENCY=-1":                              "HISTORY_QUERY_CONCURRENCY=-1: use 0 to 100",
	"HISTORY_QUERY_MAX_SAMPLES=0":                               "HISTORY_QUERY_MAX_SAMPLES=0: at least 1",
	"HISTORY_QUERY_TIMEOUT=0s":                                  "HISTORY_QUERY_TIMEOUT=0s: use 1s to 1h",
	"LIMIT_REQUEST_LIMIT_HEADER=a:b":                            `LIMIT_REQUEST_LIMIT_HEADER="a:b": use the name of an HTTP header`,
	"LIMIT_REQUEST_REMAINING_HEADER=é":                          "LIMIT_REQUEST_REMAINING_HEADER",
	"NEAR_LIMIT_RATIO=80":                                       "NEAR_LIMIT_RATIO=80: use a number from 0 to 1",
	"NEAR_LIMIT_RATIO=NaN":                                      "NEAR_LIMIT_RATIO=NaN: use a number",
	"SHADOW_MODE=maybe":                                         "variable SHADOW_MODE=",
	"KEY_FORMAT=gubernator":                                     "use weir or ratelimit",
	"EXPIRATION_JITTER_MAX_SECONDS=-1":                          "EXPIRATION_JITTER_MAX_SECONDS=-1: it cannot be negative",
	"RING_ON_NODE_LOSS=panic":                                   "use remap or pin",
	"DENIAL_LOG_INTERVAL=10ms":                                  "DENIAL_LOG_INTERVAL=10ms: use at least 1s, or 0",
	"REDIS_TYPE=mesh REDIS_URL=a:1":                             "use one of single, sentinel, cluster, ring",
	"REDIS_POOL_SIZE=-1 REDIS_URL=a:1":                          "REDIS_POOL_SIZE=-1: it cannot be negative",
	"REDIS_POOL_SIZE=many REDIS_URL=a:1":                        "use a number",
	"REDIS_TIMEOUT=-1s REDIS_URL=a:1":                           "REDIS_TIMEOUT=-1s: it cannot be negative",
	"REDIS_STARTUP_MAX_INTERVAL=-1s REDIS_URL=a:1":              "REDIS_STARTUP_MAX_INTERVAL=-1s: it cannot be negative",
	"REDIS_PERSECOND=true REDIS_PERSECOND_TIMEOUT=-1s REDIS_PERSECOND_URL=b:1 REDIS_URL=a:1":          "REDIS_PERSECOND_TIMEOUT=-1s: it cannot be negative",
	"REDIS_PERSECOND=true REDIS_URL=a:1":                                                              "REDIS_PERSECOND_URL or ",
	"USE_STATSD=true STATSD_PROTOCOL=quic":                                                            "STATSD_PROTOCOL",
	"USE_PROMETHEUS=true STATS_FLUSH_INTERVAL=0s":                                                     "STATS_FLUSH_INTERVAL",
	"USE_PROMETHEUS=true PROMETHEUS_PATH=/{x":                                                         "PROMETHEUS_PATH",
	"USE_STATSD=true EXTRA_TAGS=a":                                                                    "EXTRA_TAGS",
	"USE_DOG_STATSD=true USE_DOG_STATSD_MOGRIFIERS=A":                                                 "DOG_STATSD_MOGRIFIER_A_PATTERN",
	"USE_DOG_STATSD=true USE_DOG_STATSD_MOGRIFIERS=A " + mogrifier:                                    "DOG_STATSD_MOGRIFIER_A_NAME",
	"USE_DOG_STATSD=true USE_DOG_STATSD_MOGRIFIERS=A " + named + " " + mogrifier:                      "DOG_STATSD_MOGRIFIER_A_TAGS",
	"CONFIG_TYPE=GRPC_XDS_DELTA":                                                                      `CONFIG_TYPE="GRPC_XDS_DELTA": use FILE or GRPC_XDS_SOTW`,
	"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=-1s":                                               "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=-1s",
	"XDS_CLIENT_BACKOFF_MAX_INTERVAL=-1s":                                                             "XDS_CLIENT_BACKOFF_MAX_INTERVAL=-1s",
	"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization=hunter2":                                 "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
	"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c":                                                 "GRPC_SERVER_TLS_KEY must name",
	"GRPC_CLIENT_TLS_CACERT=ca":                                                                       `GRPC_CLIENT_TLS_CACERT="ca": clients are asked`,
	"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_SAN=envoy": `GRPC_CLIENT_TLS_SAN="envoy": clients`,
	// A URL with a password in the place of another variable.
	"REDIS_TYPE=redis://:hunter2@r:1":    "REDIS_TYPE=…",
	"REDIS_TIMEOUT=redis://:hunter2@r:1": "REDIS_TIMEOUT=…",
	"BACKEND_TYPE=redis://:hunter2@r:1":  "BACKEND_TYPE=…: use memory, redis or memcache",
}

const (
	mogrifier = "DOG_STATSD_MOGRIFIER_A_PATTERN=x"
	named     = "DOG_STATSD_MOGRIFIER_A_NAME=y DOG_STATSD_MOGRIFIER_A_TAGS=k"
)

func TestReadNamesTheWrongVariable(t *testing.T) {
	for environment, want := range wrong {
		_, err := Read(env(environment))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v; want an error that says %q, and nothing that may be secret", environment, err, want)
		}
	}
}
