// Package settings reads weir's settings from the environment, and turns them into what its parts are configured by.
package settings

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// Settings are the environment variables that weir reads. Those of envoyproxy/ratelimit mean the same here.
type Settings struct {
	Host      string `envconfig:"HOST" default:"0.0.0.0"`
	Port      uint16 `envconfig:"PORT" default:"8080"`
	GRPCHost  string `envconfig:"GRPC_HOST" default:"0.0.0.0"`
	GRPCPort  uint16 `envconfig:"GRPC_PORT" default:"8081"`
	GRPCUnix  string `envconfig:"GRPC_UDS"`
	DebugHost string `envconfig:"DEBUG_HOST" default:"0.0.0.0"`
	DebugPort uint16 `envconfig:"DEBUG_PORT" default:"6070"`
	Profiles  bool   `envconfig:"DEBUG_PPROF"`
	JSON      bool   `envconfig:"JSON_ENABLED" default:"true"`

	TokenFile     string   `envconfig:"ADMIN_TOKEN_FILE"`
	ReadTokenFile string   `envconfig:"ADMIN_READ_TOKEN_FILE"`
	AdminHosts    []string `envconfig:"ADMIN_HOSTS"` // separated by commas

	MaxConnections        int           `envconfig:"GRPC_MAX_CONNECTIONS" default:"4096"`
	MaxConnectionAge      time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE" default:"24h"`
	MaxConnectionAgeGrace time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h"`

	TLS

	ConfigType   string `envconfig:"CONFIG_TYPE" default:"FILE"`                         // or GRPC_XDS_SOTW
	ForceStart   bool   `envconfig:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false"` // what weir always does
	NeedsDomains bool   `envconfig:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" default:"false"`
	XDS

	RuntimeRoot         string `envconfig:"RUNTIME_ROOT" default:"/srv/runtime_data/current"`
	RuntimeSubdirectory string `envconfig:"RUNTIME_SUBDIRECTORY"`
	RuntimeAppdirectory string `envconfig:"RUNTIME_APPDIRECTORY" default:"config"`
	IgnoreDotFiles      bool   `envconfig:"RUNTIME_IGNOREDOTFILES" default:"false"` // what weir always does
	WatchRoot           bool   `envconfig:"RUNTIME_WATCH_ROOT" default:"true"`

	Files
	BackendType string `envconfig:"BACKEND_TYPE"`

	Redis     Redis             `envconfig:"REDIS"`
	PerSecond Redis             `envconfig:"REDIS_PERSECOND"`
	BothRedis BothRedis         `envconfig:"REDIS"`
	NodeLoss  topology.NodeLoss `envconfig:"RING_ON_NODE_LOSS" default:"remap"`

	Replicas int `envconfig:"REPLICAS" default:"1"`

	KeyPrefix string `envconfig:"CACHE_KEY_PREFIX"`
	PlainKeys
	NearRatio  float32 `envconfig:"NEAR_LIMIT_RATIO" default:"0.8"`
	ShadowMode bool    `envconfig:"SHADOW_MODE" default:"false"`
	QuotaMode  bool    `envconfig:"QUOTA_MODE" default:"false"`
	Spare      bool    `envconfig:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" default:"false"`

	LimitHeaders    bool   `envconfig:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false"`
	LimitHeader     string `envconfig:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit"`
	RemainingHeader string `envconfig:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining"`
	ResetHeader     string `envconfig:"LIMIT_RESET_HEADER" default:"RateLimit-Reset"`
	DynamicMetadata bool   `envconfig:"RESPONSE_DYNAMIC_METADATA" default:"false"`
	RequestHeaders
	RetryAfter bool `envconfig:"RETRY_AFTER_HEADER_ENABLED" default:"false"`

	KeepHistory    bool    `envconfig:"HISTORY" default:"true"`
	HistoryURL     string  `envconfig:"REDIS_HISTORY_URL"`
	HistoryURLFile string  `envconfig:"REDIS_HISTORY_URL_FILE"`
	History        History `envconfig:"HISTORY"`

	MemoryMaxKeys    int           `envconfig:"MEMORY_MAX_KEYS" default:"1000000"`
	DataDir          string        `envconfig:"DATA_DIR" default:"./weir-data"`
	DataSaveInterval time.Duration `envconfig:"DATA_SAVE_INTERVAL" default:"60s"`

	DrainDelay   time.Duration `envconfig:"DRAIN_DELAY" default:"5s"`
	DrainTimeout time.Duration `envconfig:"DRAIN_TIMEOUT" default:"20s"`

	Statistics

	LogLevel  logLevel `envconfig:"LOG_LEVEL" default:"info"`
	LogFormat string   `envconfig:"LOG_FORMAT" default:"text"`
	Denials

	GOGC string `envconfig:"GOGC"`

	HistoryAsked bool `ignored:"true"` // HISTORY is set

	as Program // the name that it was started by
}

// Read reads the environment of a program of this name. Its error names the variable and what it may hold.
func Read(as Program) (Settings, error) {
	s := Settings{as: as}
	if err := process(as, &s); err != nil {
		s.LogFormat = os.Getenv("LOG_FORMAT") // which may come after what is wrong
		return s, err
	}
	_, s.HistoryAsked = os.LookupEnv("HISTORY")
	if as == dropIn {
		s.asRatelimit()
	}
	return s, s.check()
}

// process fills a struct from the environment. It puts envconfig's errors in the words of someone who sets variables.
func process(as Program, into any) error {
	err := envconfig.Process("", into)
	wrong, ok := err.(*envconfig.ParseError)
	switch {
	case err == nil:
		return nil
	case !ok:
		return fmt.Errorf("environment: %w", err)
	}
	if _, set := os.LookupEnv(wrong.KeyName); !set { // envconfig names the part that the variable belongs to as well
		_, wrong.KeyName, _ = strings.Cut(wrong.KeyName, "_")
	}
	if as.isRatelimits() && wrong.Value == "" && os.Unsetenv(wrong.KeyName) == nil {
		return process(as, into) // what envoyproxy/ratelimit does not read may be set to nothing, and end nobody
	}
	use := map[string]string{
		"uint16":        "a port is a number from 0 to 65535",
		"bool":          "use true or false",
		"time.Duration": "use a number with its unit, as in 15s, 10m or 24h, up to 2562047h",
		"int":           "use a whole number",
	}[strings.TrimPrefix(wrong.TypeName, "*")]
	if strings.HasPrefix(wrong.TypeName, "map[") { // of headers, which may be secrets; envconfig quotes them, too
		return fmt.Errorf("environment variable %s: use key:value, separated by commas", wrong.KeyName)
	}
	if isLinkValue(wrong.Value) {
		use += "; Kubernetes sets this one for a service of that name: set it in the pod, or enableServiceLinks: false"
	}
	return require(false, wrong.KeyName, wrong.Value, cmp.Or(use, wrong.Err.Error()))
}

// check returns an error that names the first variable at fault.
func (s *Settings) check() error {
	return cmp.Or(
		s.checkBackend(),
		s.checkSource(),
		s.PlainKeys.check(),
		s.Guard(nil).Check(),
		s.checkTLS(),
		s.History.check(),
		s.Statistics.check(),
		s.Denials.check(),
		require(s.NearRatio > 0 && s.NearRatio <= 1, "NEAR_LIMIT_RATIO", s.NearRatio, "use a number above 0, and at most 1"),
		checkHeader("LIMIT_LIMIT_HEADER", s.LimitHeader),
		checkHeader("LIMIT_REMAINING_HEADER", s.RemainingHeader),
		checkHeader("LIMIT_RESET_HEADER", s.ResetHeader),
		s.RequestHeaders.check(),
		require(s.MemoryMaxKeys >= 1, "MEMORY_MAX_KEYS", s.MemoryMaxKeys, "at least 1 is needed"),
		require(s.LocalCacheSize >= 0, "LOCAL_CACHE_SIZE_IN_BYTES", s.LocalCacheSize, "it cannot be negative"),
		require(s.Replicas >= 1, "REPLICAS", s.Replicas, "at least 1 is needed, this process"),
		require(s.MaxConnections >= 0, "GRPC_MAX_CONNECTIONS", s.MaxConnections, "use 0 for no bound, or a number of connections"),
		require(isLogFormat(s.LogFormat) || s.as == dropIn, "LOG_FORMAT", s.LogFormat, "use text or json"),
		checkAge("GRPC_MAX_CONNECTION_AGE", s.MaxConnectionAge),
		checkAge("GRPC_MAX_CONNECTION_AGE_GRACE", s.MaxConnectionAgeGrace),
		notNegative("", durations{"DRAIN_DELAY": s.DrainDelay, "DRAIN_TIMEOUT": s.DrainTimeout,
			"DATA_SAVE_INTERVAL": s.DataSaveInterval}),
	)
}

// require returns nil if a variable's value is right, or else an error with what to use.
func require(right bool, variable string, value any, use string) error {
	if right {
		return nil
	}
	if text, isText := value.(string); isText {
		value = strconv.Quote(text)
		if strings.Contains(text, "@") { // it may be a URL with a password, of another variable
			value, use = "…", strings.ReplaceAll(use, text, "…")
		}
	}
	return fmt.Errorf("environment variable %s=%v: %s", variable, value, use)
}

// durations are values by their variables.
type durations map[string]time.Duration

// notNegative refuses the first duration, in the order of names, that is below 0. The names begin with prefix.
func notNegative(prefix string, all durations) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := require(all[name] >= 0, prefix+name, all[name], "it cannot be negative"); err != nil {
			return err
		}
	}
	return nil
}

// ConfigDir returns the directory that holds the descriptor files, unless --config names another.
func (s *Settings) ConfigDir() string {
	return filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory, s.RuntimeAppdirectory)
}
