package config

import (
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// Variables are the environment variables that weir reads. Those of envoyproxy/ratelimit have the same meaning.
type Variables struct {
	Host      string `envconfig:"HOST" default:"0.0.0.0"`
	Port      uint16 `envconfig:"PORT" default:"8080"`
	GRPCHost  string `envconfig:"GRPC_HOST" default:"0.0.0.0"`
	GRPCPort  uint16 `envconfig:"GRPC_PORT" default:"8081"`
	GRPCUnix  string `envconfig:"GRPC_UDS"`
	DebugHost string `envconfig:"DEBUG_HOST" default:"0.0.0.0"`
	DebugPort uint16 `envconfig:"DEBUG_PORT" default:"6070"`
	Profiles  bool   `envconfig:"DEBUG_PPROF"`
	JSON      bool   `envconfig:"JSON_ENABLED" default:"true"`

	TokenFile     string `envconfig:"ADMIN_TOKEN_FILE"`
	ReadTokenFile string `envconfig:"ADMIN_READ_TOKEN_FILE"`
	AdminHosts    list   `envconfig:"ADMIN_HOSTS"` // separated by commas

	MaxConnections          int           `envconfig:"GRPC_MAX_CONNECTIONS" default:"4096"`
	MaxConnectionsPerClient int           `envconfig:"GRPC_MAX_CONNECTIONS_PER_CLIENT" default:"256"`
	MaxConnectionAge        time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE" default:"24h"`
	MaxConnectionAgeGrace   time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h"`

	ServerTLS  bool   `envconfig:"GRPC_SERVER_USE_TLS" default:"false"`
	ServerCert string `envconfig:"GRPC_SERVER_TLS_CERT"`
	ServerKey  string `envconfig:"GRPC_SERVER_TLS_KEY"`
	ClientCA   string `envconfig:"GRPC_CLIENT_TLS_CACERT"` // clients must have a certificate of this CA
	ClientSAN  string `envconfig:"GRPC_CLIENT_TLS_SAN"`    // name that this certificate must have

	ConfigType   string `envconfig:"CONFIG_TYPE" default:"FILE"` // or GRPC_XDS_SOTW
	NeedsDomains bool   `envconfig:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" default:"false"`

	// The server that configurations come from with CONFIG_TYPE=GRPC_XDS_SOTW.
	XDSNode         string        `envconfig:"CONFIG_GRPC_XDS_NODE_ID" default:"default"`
	XDSNodeMetadata string        `envconfig:"CONFIG_GRPC_XDS_NODE_METADATA"` // key=value, separated by commas
	XDSServer       string        `envconfig:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000"`
	XDSRetry        time.Duration `envconfig:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s"`
	XDSHeaders      pairs         `envconfig:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"` // key:value, separated by commas

	XDSServerTLS  bool   `envconfig:"CONFIG_GRPC_XDS_SERVER_USE_TLS" default:"false"`
	XDSServerCA   string `envconfig:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	XDSServerSAN  string `envconfig:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`
	XDSClientCert string `envconfig:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	XDSClientKey  string `envconfig:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`

	XDSInitialBackoff time.Duration `envconfig:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s"`
	XDSMaxBackoff     time.Duration `envconfig:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s"`
	XDSBackoffFactor  float64       `envconfig:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5"`
	XDSBackoffJitter  bool          `envconfig:"XDS_CLIENT_BACKOFF_JITTER" default:"true"`
	XDSMaxMessage     int           `envconfig:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" default:"0"`

	RuntimeRoot         string `envconfig:"RUNTIME_ROOT" default:"/srv/runtime_data/current"`
	RuntimeSubdirectory string `envconfig:"RUNTIME_SUBDIRECTORY"`
	RuntimeAppdirectory string `envconfig:"RUNTIME_APPDIRECTORY" default:"config"`
	WatchRoot           bool   `envconfig:"RUNTIME_WATCH_ROOT" default:"true"`

	Files

	Redis     Redis `envconfig:"REDIS"`
	PerSecond Redis `envconfig:"REDIS_PERSECOND"`
	BothRedis
	NodeLoss topology.NodeLoss `envconfig:"RING_ON_NODE_LOSS" default:"remap"`
	Memcache

	Replicas int  `envconfig:"REPLICAS" default:"1"`
	Leases   bool `envconfig:"LEASES"`

	Quotas Quotas `envconfig:"RLQS"`

	// Further variables of counters in the keys of envoyproxy/ratelimit; see KEY_FORMAT.
	KeyPrefix      string `envconfig:"CACHE_KEY_PREFIX"`
	ExpireJitter   int64  `envconfig:"EXPIRATION_JITTER_MAX_SECONDS" default:"300"` // seconds; 0 for none
	LocalCacheSize int64  `envconfig:"LOCAL_CACHE_SIZE_IN_BYTES" default:"0"`
	CalendarMonths bool   `envconfig:"USE_CALENDAR_MONTH_RATE_LIMIT" default:"false"`

	NearRatio    float32 `envconfig:"NEAR_LIMIT_RATIO" default:"0.8"`
	ShadowMode   bool    `envconfig:"SHADOW_MODE" default:"false"`
	QuotaMode    bool    `envconfig:"QUOTA_MODE" default:"false"`
	RefundOthers bool    `envconfig:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" default:"false"`

	LimitHeaders    bool   `envconfig:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false"`
	LimitHeader     string `envconfig:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit"`
	RemainingHeader string `envconfig:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining"`
	ResetHeader     string `envconfig:"LIMIT_RESET_HEADER" default:"RateLimit-Reset"`
	DynamicMetadata bool   `envconfig:"RESPONSE_DYNAMIC_METADATA" default:"false"`
	RetryAfter      bool   `envconfig:"RETRY_AFTER_HEADER_ENABLED" default:"false"`

	// Headers that requests get on their way to the service behind Envoy.
	RequestHeadersOn       bool   `envconfig:"LIMIT_REQUEST_HEADERS_ENABLED" default:"false"`
	RequestLimitHeader     string `envconfig:"LIMIT_REQUEST_LIMIT_HEADER" default:"RateLimit-Limit"`
	RequestRemainingHeader string `envconfig:"LIMIT_REQUEST_REMAINING_HEADER" default:"RateLimit-Remaining"`
	RequestResetHeader     string `envconfig:"LIMIT_REQUEST_RESET_HEADER" default:"RateLimit-Reset"`

	KeepHistory    bool   `envconfig:"HISTORY" default:"true"`
	HistoryURL     string `envconfig:"REDIS_HISTORY_URL"`
	HistoryURLFile string `envconfig:"REDIS_HISTORY_URL_FILE"`
	History

	MemoryMaxKeys    int           `envconfig:"MEMORY_MAX_KEYS" default:"1000000"`
	DataDir          string        `envconfig:"DATA_DIR" default:"./weir-data"`
	DataSaveInterval time.Duration `envconfig:"DATA_SAVE_INTERVAL" default:"60s"`

	DrainDelay   time.Duration `envconfig:"DRAIN_DELAY" default:"5s"`
	DrainTimeout time.Duration `envconfig:"DRAIN_TIMEOUT" default:"20s"`

	Statistics
	Telemetry

	LogLevel  logLevel `envconfig:"LOG_LEVEL" default:"info"`
	LogFormat string   `envconfig:"LOG_FORMAT" default:"text"`

	DenialLogEvery  time.Duration `envconfig:"DENIAL_LOG_INTERVAL" default:"1m"`
	DenialLogValues bool          `envconfig:"DENIAL_LOG_VALUES" default:"false"`
	DenialMetadata  bool          `envconfig:"DENIAL_METADATA" default:"true"`

	GOGC string `envconfig:"GOGC"`
}

// Files are the variables about reading descriptor files, and the defaults of their rules.
type Files struct {
	Algorithm    descriptors.Algorithm `envconfig:"ALGORITHM" default:"sliding_window"`
	KeyFormat    descriptors.KeyFormat `envconfig:"KEY_FORMAT" default:"weir"`
	MergeDomains bool                  `envconfig:"MERGE_DOMAIN_CONFIG" default:"false"`
	OnFailure    descriptors.Policy    `envconfig:"ON_BACKEND_FAILURE" default:"allow"`
	BackendType  string                `envconfig:"BACKEND_TYPE"` // memory, redis or memcache

	Lenient bool `ignored:"true"` // no variable: see yaml.Options
}

// Redis are the variables of the connections to one Redis. They begin with REDIS_ or REDIS_PERSECOND_.
type Redis struct {
	Type         topology.Type `split_words:"true" default:"single"`
	URL          string        `split_words:"true"`
	URLFile      string        `split_words:"true"`
	SocketType   string        `split_words:"true"`
	Auth         string        `split_words:"true"`
	AuthFile     string        `split_words:"true"`
	SentinelAuth string        `split_words:"true"`
	PoolSize     int           `split_words:"true" default:"20"`
	Timeout      time.Duration `split_words:"true" default:"500ms"`
	TLS          bool          `split_words:"true"`

	TLSServerName string `split_words:"true"`
}

// BothRedis are the variables that begin with REDIS_ and apply to both Redis.
type BothRedis struct {
	UsePerSecond bool `envconfig:"REDIS_PERSECOND" default:"false"`
	Functions    bool `envconfig:"REDIS_FUNCTIONS" default:"true"`

	TLSFiles ClientTLS `envconfig:"REDIS_TLS"`

	StartupInitialInterval      time.Duration `envconfig:"REDIS_STARTUP_INITIAL_INTERVAL" default:"1s"`
	StartupMaxInterval          time.Duration `envconfig:"REDIS_STARTUP_MAX_INTERVAL" default:"30s"`
	StartupMaxElapsedTime       time.Duration `envconfig:"REDIS_STARTUP_MAX_ELAPSED_TIME" default:"0"`
	HealthCheckActiveConnection bool          `envconfig:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION" default:"false"`
}

// Memcache are the variables of the connections to memcached. They begin with MEMCACHE_.
type Memcache struct {
	HostPort   list          `envconfig:"MEMCACHE_HOST_PORT"` // separated by commas
	SRV        string        `envconfig:"MEMCACHE_SRV"`       // the name of a record, instead
	SRVRefresh time.Duration `envconfig:"MEMCACHE_SRV_REFRESH" default:"0"`
	MaxConns   int           `envconfig:"MEMCACHE_MAX_IDLE_CONNS" default:"1"` // to each server; from 1 to maxMemcachedConns
	Timeout    time.Duration `envconfig:"MEMCACHE_TIMEOUT" default:"500ms"`
	TLS        bool          `envconfig:"MEMCACHE_TLS"`

	TLSServerName string    `envconfig:"MEMCACHE_TLS_SERVER_NAME"`
	TLSFiles      ClientTLS `envconfig:"MEMCACHE_TLS"`
}

// ClientTLS are the variables that begin with REDIS_TLS_ or MEMCACHE_TLS_, except the server names.
type ClientTLS struct {
	CACert                   string
	ClientCert               string `split_words:"true"`
	ClientKey                string `split_words:"true"`
	SkipHostnameVerification bool   `split_words:"true"` // see certs.Connections
}

// Quotas are the variables of RLQS, by which Envoys limit by themselves. They begin with RLQS_.
type Quotas struct {
	Enabled          bool          `split_words:"true" default:"true"`
	TTL              time.Duration `split_words:"true" default:"15s"`
	MaxStreams       int           `split_words:"true" default:"1000"`
	MaxBuckets       int           `split_words:"true" default:"100000"`
	MaxStreamBuckets int           `split_words:"true" default:"10000"`
}

// History are the variables of the history of hits. They begin with HISTORY_.
type History struct {
	FlushInterval time.Duration `envconfig:"HISTORY_FLUSH_INTERVAL" default:"15s"`
	Downsample    *bool         `envconfig:"HISTORY_DOWNSAMPLE"` // nil: unless the history is in Redis

	KeepMinutes     time.Duration `envconfig:"HISTORY_KEEP_MINUTES" default:"24h"`
	KeepFiveMinutes time.Duration `envconfig:"HISTORY_KEEP_5_MINUTES" default:"168h"`
	KeepHours       time.Duration `envconfig:"HISTORY_KEEP_HOURS" default:"720h"`
	Retention       time.Duration `envconfig:"HISTORY_RETENTION" default:"87600h"`
	MaxPoints       int           `envconfig:"HISTORY_MAX_POINTS" default:"5000"`
	Values          int           `envconfig:"HISTORY_VALUES" default:"100"`

	Query            bool          `envconfig:"HISTORY_QUERY" default:"true"`
	QueryConcurrency int           `envconfig:"HISTORY_QUERY_CONCURRENCY" default:"0"` // 0: the command's default
	QueryMaxSamples  int           `envconfig:"HISTORY_QUERY_MAX_SAMPLES" default:"5000000"`
	QueryTimeout     time.Duration `envconfig:"HISTORY_QUERY_TIMEOUT" default:"1m"`
}

// Statistics are the variables of envoyproxy/ratelimit's statistics, which weir has in addition to its own metrics.
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

	ExtraTags     pairs         `envconfig:"EXTRA_TAGS"` // key:value, separated by commas
	FlushInterval time.Duration `envconfig:"STATS_FLUSH_INTERVAL" default:"10s"`
	DisableStats  bool          `envconfig:"DISABLE_STATS" default:"false"`

	MetricsWithoutDots bool `envconfig:"SANITIZE_DESCRIPTOR_METRIC_DOTS" default:"false"` // see descriptors.Rule.Metric
}

// Telemetry are the variables about spans and totals for an OpenTelemetry collector. The SDK reads further OTEL_
// variables of the process.
type Telemetry struct {
	TracingEnabled  bool    `envconfig:"TRACING_ENABLED" default:"false"`
	SamplingRate    float64 `envconfig:"TRACING_SAMPLING_RATE" default:"1"`
	TracingProtocol string  `envconfig:"TRACING_EXPORTER_PROTOCOL"` // or OTEL_EXPORTER_OTLP_TRACES_PROTOCOL
	TracingValues   bool    `envconfig:"TRACING_DESCRIPTOR_VALUES" default:"false"`
	ServiceName     string  `envconfig:"TRACING_SERVICE_NAME"` // as ratelimit RateLimit
	Namespace       string  `envconfig:"TRACING_SERVICE_NAMESPACE"`
	InstanceID      string  `envconfig:"TRACING_SERVICE_INSTANCE_ID"`

	MetricsExporter string `envconfig:"OTEL_METRICS_EXPORTER" default:"none"` // or otlp
	SDKDisabled     string `envconfig:"OTEL_SDK_DISABLED"`
	Protocol        string `envconfig:"OTEL_EXPORTER_OTLP_PROTOCOL" default:"http/protobuf"` // or grpc
	TracesProtocol  string `envconfig:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"`
	MetricsProtocol string `envconfig:"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"`
}
