package settings

import (
	"time"
)

// PlainKeys are the variables about counters in the keys of envoyproxy/ratelimit, but for KEY_FORMAT and CACHE_KEY_PREFIX.
type PlainKeys struct {
	ExpireJitter   int64 `envconfig:"EXPIRATION_JITTER_MAX_SECONDS" default:"300"` // seconds; 0 for none
	LocalCacheSize int64 `envconfig:"LOCAL_CACHE_SIZE_IN_BYTES" default:"0"`
	CalendarMonths bool  `envconfig:"USE_CALENDAR_MONTH_RATE_LIMIT" default:"false"`
}

// TLS are the variables about TLS on the gRPC port.
type TLS struct {
	ServerTLS  bool   `envconfig:"GRPC_SERVER_USE_TLS" default:"false"`
	ServerCert string `envconfig:"GRPC_SERVER_TLS_CERT"`
	ServerKey  string `envconfig:"GRPC_SERVER_TLS_KEY"`
	ClientCA   string `envconfig:"GRPC_CLIENT_TLS_CACERT"` // clients must have a certificate by it
	ClientSAN  string `envconfig:"GRPC_CLIENT_TLS_SAN"`    // that this certificate must be for
}

// XDS are the variables about the server that configurations come from with CONFIG_TYPE=GRPC_XDS_SOTW.
type XDS struct {
	XDSNode         string            `envconfig:"CONFIG_GRPC_XDS_NODE_ID" default:"default"`
	XDSNodeMetadata string            `envconfig:"CONFIG_GRPC_XDS_NODE_METADATA"` // key=value, separated by commas
	XDSServer       string            `envconfig:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000"`
	XDSRetry        time.Duration     `envconfig:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s"`
	XDSHeaders      map[string]string `envconfig:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"` // key:value, separated by commas

	XDSServerTLS  bool   `envconfig:"CONFIG_GRPC_XDS_SERVER_USE_TLS" default:"false"`
	XDSServerCA   string `envconfig:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	XDSServerSAN  string `envconfig:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`
	XDSClientCert string `envconfig:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	XDSClientKey  string `envconfig:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`

	XDSFirstPause   time.Duration `envconfig:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s"`
	XDSLongestPause time.Duration `envconfig:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s"`
	XDSPauseFactor  float64       `envconfig:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5"`
	XDSPauseJitter  bool          `envconfig:"XDS_CLIENT_BACKOFF_JITTER" default:"true"`
	XDSMaxMessage   int           `envconfig:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" default:"0"`
}

// RequestHeaders are the variables about headers that requests get on their way to the service behind Envoy.
type RequestHeaders struct {
	RequestHeadersOn       bool   `envconfig:"LIMIT_REQUEST_HEADERS_ENABLED" default:"false"`
	RequestLimitHeader     string `envconfig:"LIMIT_REQUEST_LIMIT_HEADER" default:"RateLimit-Limit"`
	RequestRemainingHeader string `envconfig:"LIMIT_REQUEST_REMAINING_HEADER" default:"RateLimit-Remaining"`
	RequestResetHeader     string `envconfig:"LIMIT_REQUEST_RESET_HEADER" default:"RateLimit-Reset"`
}

// Statistics are the variables about envoyproxy/ratelimit's statistics, which weir gives under its names beside its own.
type Statistics struct {
	UseStatsd         bool   `envconfig:"USE_STATSD" default:"false"` // as ratelimit true
	StatsdHost        string `envconfig:"STATSD_HOST" default:"localhost"`
	StatsdPort        uint16 `envconfig:"STATSD_PORT" default:"8125"`
	StatsdProtocol    string `envconfig:"STATSD_PROTOCOL" default:"tcp"` // or udp
	UseDogStatsd      bool   `envconfig:"USE_DOG_STATSD" default:"false"`
	DogStatsdPatterns string `envconfig:"USE_DOG_STATSD_MOGRIFIERS"` // names N of DOG_STATSD_MOGRIFIER_N_PATTERN, _NAME, _TAGS
	DogEnv            string `envconfig:"DD_ENV"`
	DogService        string `envconfig:"DD_SERVICE"`
	DogVersion        string `envconfig:"DD_VERSION"`
	DogEntityID       string `envconfig:"DD_ENTITY_ID"`

	UsePrometheus          bool   `envconfig:"USE_PROMETHEUS" default:"false"`
	PrometheusAddress      string `envconfig:"PROMETHEUS_ADDR" default:":9090"`
	PrometheusPath         string `envconfig:"PROMETHEUS_PATH" default:"/metrics"`
	PrometheusMapper       string `envconfig:"PROMETHEUS_MAPPER_YAML"`
	PrometheusMilliseconds bool   `envconfig:"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS" default:"false"`

	ExtraTags     map[string]string `envconfig:"EXTRA_TAGS"` // key:value, separated by commas
	FlushInterval time.Duration     `envconfig:"STATS_FLUSH_INTERVAL" default:"10s"`
	DisableStats  bool              `envconfig:"DISABLE_STATS" default:"false"`
}
