package config

import (
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// Variables are the environment variables that weir reads. Those of envoyproxy/ratelimit mean the same here.
type Variables struct {
	Host      string `env:"HOST,default=0.0.0.0"`
	Port      uint16 `env:"PORT,default=8080"`
	GRPCHost  string `env:"GRPC_HOST,default=0.0.0.0"`
	GRPCPort  uint16 `env:"GRPC_PORT,default=8081"`
	GRPCUnix  string `env:"GRPC_UDS"`
	DebugHost string `env:"DEBUG_HOST,default=0.0.0.0"`
	DebugPort uint16 `env:"DEBUG_PORT,default=6070"`
	Profiles  bool   `env:"DEBUG_PPROF"`
	JSON      bool   `env:"JSON_ENABLED,default=true"`

	TokenFile     string   `env:"ADMIN_TOKEN_FILE"`
	ReadTokenFile string   `env:"ADMIN_READ_TOKEN_FILE"`
	AdminHosts    []string `env:"ADMIN_HOSTS"` // separated by commas

	MaxConnections          int           `env:"GRPC_MAX_CONNECTIONS,default=4096"`
	MaxConnectionsPerClient int           `env:"GRPC_MAX_CONNECTIONS_PER_CLIENT,default=256"`
	MaxConnectionAge        time.Duration `env:"GRPC_MAX_CONNECTION_AGE,default=24h"`
	MaxConnectionAgeGrace   time.Duration `env:"GRPC_MAX_CONNECTION_AGE_GRACE,default=1h"`

	ServerTLS  bool   `env:"GRPC_SERVER_USE_TLS,default=false"`
	ServerCert string `env:"GRPC_SERVER_TLS_CERT"`
	ServerKey  string `env:"GRPC_SERVER_TLS_KEY"`
	ClientCA   string `env:"GRPC_CLIENT_TLS_CACERT"` // clients must have a certificate by it
	ClientSAN  string `env:"GRPC_CLIENT_TLS_SAN"`    // that this certificate must be for

	ConfigType   string `env:"CONFIG_TYPE,default=FILE"` // or GRPC_XDS_SOTW
	NeedsDomains bool   `env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED,default=false"`

	// The server that configurations come from with CONFIG_TYPE=GRPC_XDS_SOTW.
	XDSNode         string            `env:"CONFIG_GRPC_XDS_NODE_ID,default=default"`
	XDSNodeMetadata string            `env:"CONFIG_GRPC_XDS_NODE_METADATA"` // key=value, separated by commas
	XDSServer       string            `env:"CONFIG_GRPC_XDS_SERVER_URL,default=localhost:18000"`
	XDSRetry        time.Duration     `env:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL,default=3s"`
	XDSHeaders      map[string]string `env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"` // key:value, separated by commas

	XDSServerTLS  bool   `env:"CONFIG_GRPC_XDS_SERVER_USE_TLS,default=false"`
	XDSServerCA   string `env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	XDSServerSAN  string `env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`
	XDSClientCert string `env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	XDSClientKey  string `env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`

	XDSInitialBackoff time.Duration `env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL,default=10s"`
	XDSMaxBackoff     time.Duration `env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL,default=60s"`
	XDSBackoffFactor  float64       `env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR,default=0.5"`
	XDSBackoffJitter  bool          `env:"XDS_CLIENT_BACKOFF_JITTER,default=true"`
	XDSMaxMessage     int           `env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES,default=0"`

	RuntimeRoot         string `env:"RUNTIME_ROOT,default=/srv/runtime_data/current"`
	RuntimeSubdirectory string `env:"RUNTIME_SUBDIRECTORY"`
	RuntimeAppdirectory string `env:"RUNTIME_APPDIRECTORY,default=config"`
	WatchRoot           bool   `env:"RUNTIME_WATCH_ROOT,default=true"`

	Files

	Redis     Redis             `env:",prefix=REDIS_"`
	PerSecond Redis             `env:",prefix=REDIS_PERSECOND_"`
	BothRedis BothRedis         `env:",prefix=REDIS_"`
	NodeLoss  topology.NodeLoss `env:"RING_ON_NODE_LOSS,default=remap"`
	Memcache  Memcache          `env:",prefix=MEMCACHE_"`

	Replicas int  `env:"REPLICAS,default=1"`
	Leases   bool `env:"LEASES,default=true"`

	Quotas Quotas `env:",prefix=RLQS_"`

	// Counters in the keys of envoyproxy/ratelimit, beside KEY_FORMAT.
	KeyPrefix      string `env:"CACHE_KEY_PREFIX"`
	ExpireJitter   int64  `env:"EXPIRATION_JITTER_MAX_SECONDS,default=300"` // seconds; 0 for none
	LocalCacheSize int64  `env:"LOCAL_CACHE_SIZE_IN_BYTES,default=0"`
	CalendarMonths bool   `env:"USE_CALENDAR_MONTH_RATE_LIMIT,default=false"`

	NearRatio   float32 `env:"NEAR_LIMIT_RATIO,default=0.8"`
	ShadowMode  bool    `env:"SHADOW_MODE,default=false"`
	QuotaMode   bool    `env:"QUOTA_MODE,default=false"`
	SpareOthers bool    `env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT,default=false"`

	LimitHeaders    bool   `env:"LIMIT_RESPONSE_HEADERS_ENABLED,default=false"`
	LimitHeader     string `env:"LIMIT_LIMIT_HEADER,default=RateLimit-Limit"`
	RemainingHeader string `env:"LIMIT_REMAINING_HEADER,default=RateLimit-Remaining"`
	ResetHeader     string `env:"LIMIT_RESET_HEADER,default=RateLimit-Reset"`
	DynamicMetadata bool   `env:"RESPONSE_DYNAMIC_METADATA,default=false"`
	RetryAfter      bool   `env:"RETRY_AFTER_HEADER_ENABLED,default=false"`

	// Headers that requests get on their way to the service behind Envoy.
	RequestHeadersOn       bool   `env:"LIMIT_REQUEST_HEADERS_ENABLED,default=false"`
	RequestLimitHeader     string `env:"LIMIT_REQUEST_LIMIT_HEADER,default=RateLimit-Limit"`
	RequestRemainingHeader string `env:"LIMIT_REQUEST_REMAINING_HEADER,default=RateLimit-Remaining"`
	RequestResetHeader     string `env:"LIMIT_REQUEST_RESET_HEADER,default=RateLimit-Reset"`

	KeepHistory    bool    `env:"HISTORY,default=true"`
	HistoryURL     string  `env:"REDIS_HISTORY_URL"`
	HistoryURLFile string  `env:"REDIS_HISTORY_URL_FILE"`
	History        History `env:",prefix=HISTORY_"`

	MemoryMaxKeys    int           `env:"MEMORY_MAX_KEYS,default=1000000"`
	DataDir          string        `env:"DATA_DIR,default=./weir-data"`
	DataSaveInterval time.Duration `env:"DATA_SAVE_INTERVAL,default=60s"`

	DrainDelay   time.Duration `env:"DRAIN_DELAY,default=5s"`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT,default=20s"`

	Statistics

	LogLevel  logLevel `env:"LOG_LEVEL,default=info"`
	LogFormat string   `env:"LOG_FORMAT,default=text"`

	DenialLogEvery  time.Duration `env:"DENIAL_LOG_INTERVAL,default=1m"`
	DenialLogValues bool          `env:"DENIAL_LOG_VALUES,default=false"`
	DenialMetadata  bool          `env:"DENIAL_METADATA,default=true"`

	GOGC string `env:"GOGC"`
}

// Files are the variables that say how descriptor files are read, and what holds where they say nothing.
type Files struct {
	Algorithm    descriptors.Algorithm `env:"ALGORITHM,default=sliding_window"`
	KeyFormat    descriptors.KeyFormat `env:"KEY_FORMAT,default=weir"`
	MergeDomains bool                  `env:"MERGE_DOMAIN_CONFIG,default=false"`
	OnFailure    descriptors.Policy    `env:"ON_BACKEND_FAILURE,default=allow"`
	BackendType  string                `env:"BACKEND_TYPE"` // memory, redis or memcache

	Lenient bool // no variable: see yaml.Options
}

// Redis are the variables that say how one Redis is reached: they begin with REDIS_ or REDIS_PERSECOND_.
type Redis struct {
	Type         topology.Type `env:"TYPE,default=single"`
	URL          string        `env:"URL"`
	URLFile      string        `env:"URL_FILE"`
	SocketType   string        `env:"SOCKET_TYPE"`
	Auth         string        `env:"AUTH"`
	AuthFile     string        `env:"AUTH_FILE"`
	SentinelAuth string        `env:"SENTINEL_AUTH"`
	PoolSize     int           `env:"POOL_SIZE,default=20"`
	Timeout      time.Duration `env:"TIMEOUT,default=500ms"`
	TLS          bool          `env:"TLS"`

	TLSServerName string `env:"TLS_SERVER_NAME"`
}

// BothRedis are the variables that begin with REDIS_ and exist once: they hold for both Redis.
type BothRedis struct {
	UsePerSecond bool `env:"PERSECOND,default=false"`
	Functions    bool `env:"FUNCTIONS,default=true"`

	TLSFiles ClientTLS `env:",prefix=TLS_"`

	StartupInitialInterval      time.Duration `env:"STARTUP_INITIAL_INTERVAL,default=1s"`
	StartupMaxInterval          time.Duration `env:"STARTUP_MAX_INTERVAL,default=30s"`
	StartupMaxElapsedTime       time.Duration `env:"STARTUP_MAX_ELAPSED_TIME,default=0"`
	HealthCheckActiveConnection bool          `env:"HEALTH_CHECK_ACTIVE_CONNECTION,default=false"`
}

// Memcache are the variables that begin with MEMCACHE_: how memcached is reached.
type Memcache struct {
	HostPort   []string      `env:"HOST_PORT"` // separated by commas
	SRV        string        `env:"SRV"`       // the name of a record, instead
	SRVRefresh time.Duration `env:"SRV_REFRESH,default=0"`
	MaxConns   int           `env:"MAX_IDLE_CONNS,default=1"` // to each server; from 1 to maxMemcachedConns
	Timeout    time.Duration `env:"TIMEOUT,default=500ms"`
	TLS        bool          `env:"TLS"`

	TLSServerName string    `env:"TLS_SERVER_NAME"`
	TLSFiles      ClientTLS `env:",prefix=TLS_"`
}

// ClientTLS are the variables that begin with REDIS_TLS_ or MEMCACHE_TLS_, and name no server.
type ClientTLS struct {
	CA      string `env:"CACERT"`
	Cert    string `env:"CLIENT_CERT"`
	Key     string `env:"CLIENT_KEY"`
	AnyName bool   `env:"SKIP_HOSTNAME_VERIFICATION"` // see certs.Connections
}

// Quotas are the variables that begin with RLQS_: Envoys that limit by themselves.
type Quotas struct {
	Enabled          bool          `env:"ENABLED,default=true"`
	TTL              time.Duration `env:"TTL,default=15s"`
	MaxStreams       int           `env:"MAX_STREAMS,default=1000"`
	MaxBuckets       int           `env:"MAX_BUCKETS,default=100000"`
	MaxStreamBuckets int           `env:"MAX_STREAM_BUCKETS,default=10000"`
}

// History are the variables that begin with HISTORY_: how the history of hits is kept.
type History struct {
	FlushInterval time.Duration `env:"FLUSH_INTERVAL,default=15s"`
	Downsample    *bool         `env:"DOWNSAMPLE,noinit"` // nil: only what is not in Redis

	KeepMinutes     time.Duration `env:"KEEP_MINUTES,default=24h"`
	KeepFiveMinutes time.Duration `env:"KEEP_5_MINUTES,default=168h"`
	KeepHours       time.Duration `env:"KEEP_HOURS,default=720h"`
	Retention       time.Duration `env:"RETENTION,default=87600h"`
	MaxPoints       int           `env:"MAX_POINTS,default=5000"`
	Values          int           `env:"VALUES,default=100"`

	Query            bool          `env:"QUERY,default=true"`
	QueryConcurrency int           `env:"QUERY_CONCURRENCY,default=0"` // 0 leaves it to who serves
	QueryMaxSamples  int           `env:"QUERY_MAX_SAMPLES,default=5000000"`
	QueryTimeout     time.Duration `env:"QUERY_TIMEOUT,default=1m"`
}

// Statistics are the variables about envoyproxy/ratelimit's statistics, which weir gives under its names beside its own.
type Statistics struct {
	UseStatsd         bool   `env:"USE_STATSD,default=false"` // as ratelimit true
	StatsdHost        string `env:"STATSD_HOST,default=localhost"`
	StatsdPort        uint16 `env:"STATSD_PORT,default=8125"`
	StatsdProtocol    string `env:"STATSD_PROTOCOL,default=tcp"` // or udp
	UseDogStatsd      bool   `env:"USE_DOG_STATSD,default=false"`
	DogStatsdPatterns string `env:"USE_DOG_STATSD_MOGRIFIERS"` // names N of DOG_STATSD_MOGRIFIER_N_PATTERN, _NAME, _TAGS
	DogEnv            string `env:"DD_ENV"`
	DogService        string `env:"DD_SERVICE"`
	DogVersion        string `env:"DD_VERSION"`
	DogEntityID       string `env:"DD_ENTITY_ID"`

	UsePrometheus          bool   `env:"USE_PROMETHEUS,default=false"`
	PrometheusAddress      string `env:"PROMETHEUS_ADDR,default=:9090"`
	PrometheusPath         string `env:"PROMETHEUS_PATH,default=/metrics"`
	PrometheusMapper       string `env:"PROMETHEUS_MAPPER_YAML"`
	PrometheusMilliseconds bool   `env:"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS,default=false"`

	ExtraTags     map[string]string `env:"EXTRA_TAGS"` // key:value, separated by commas
	FlushInterval time.Duration     `env:"STATS_FLUSH_INTERVAL,default=10s"`
	DisableStats  bool              `env:"DISABLE_STATS,default=false"`

	MetricsWithoutDots bool `env:"SANITIZE_DESCRIPTOR_METRIC_DOTS,default=false"` // see descriptors.Rule.Metric
}
