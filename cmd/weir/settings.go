package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/weirproxy/weir/descriptors"
)

// settings are the environment variables that weir reads. Names and meanings are envoyproxy/ratelimit's wherever it has
// the variable; ENVIRONMENT.md lists them with their defaults.
type settings struct {
	Host      string `envconfig:"HOST" default:"0.0.0.0"`
	Port      uint16 `envconfig:"PORT" default:"8080"`
	GRPCHost  string `envconfig:"GRPC_HOST" default:"0.0.0.0"`
	GRPCPort  uint16 `envconfig:"GRPC_PORT" default:"8081"`
	GRPCUnix  string `envconfig:"GRPC_UDS"`
	DebugHost string `envconfig:"DEBUG_HOST" default:"0.0.0.0"`
	DebugPort uint16 `envconfig:"DEBUG_PORT" default:"6070"`
	Profiles  bool   `envconfig:"DEBUG_PPROF"`
	TokenFile string `envconfig:"ADMIN_TOKEN_FILE"`

	MaxConnectionAge      time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE" default:"24h"`
	MaxConnectionAgeGrace time.Duration `envconfig:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h"`

	RuntimeRoot         string `envconfig:"RUNTIME_ROOT" default:"/srv/runtime_data/current"`
	RuntimeSubdirectory string `envconfig:"RUNTIME_SUBDIRECTORY"`
	RuntimeAppdirectory string `envconfig:"RUNTIME_APPDIRECTORY" default:"config"`

	Algorithm    algorithm `envconfig:"ALGORITHM" default:"sliding_window"`
	MergeDomains bool      `envconfig:"MERGE_DOMAIN_CONFIG" default:"false"`
	BackendType  string    `envconfig:"BACKEND_TYPE"`

	Redis     redisSettings `envconfig:"REDIS"`
	PerSecond redisSettings `envconfig:"REDIS_PERSECOND"`
	BothRedis bothRedis     `envconfig:"REDIS"`
	NodeLoss  nodeLoss      `envconfig:"RING_ON_NODE_LOSS" default:"remap"`

	KeyPrefix  string  `envconfig:"CACHE_KEY_PREFIX"`
	NearRatio  float32 `envconfig:"NEAR_LIMIT_RATIO" default:"0.8"`
	ShadowMode bool    `envconfig:"SHADOW_MODE" default:"false"`
	QuotaMode  bool    `envconfig:"QUOTA_MODE" default:"false"`
	Spare      bool    `envconfig:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" default:"false"`

	LimitHeaders    bool   `envconfig:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false"`
	LimitHeader     string `envconfig:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit"`
	RemainingHeader string `envconfig:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining"`
	ResetHeader     string `envconfig:"LIMIT_RESET_HEADER" default:"RateLimit-Reset"`
	DynamicMetadata bool   `envconfig:"RESPONSE_DYNAMIC_METADATA" default:"false"`
	RetryAfter      bool   `envconfig:"RETRY_AFTER_HEADER_ENABLED" default:"false"`

	KeepHistory bool            `envconfig:"HISTORY" default:"true"`
	HistoryURL  string          `envconfig:"REDIS_HISTORY_URL"`
	History     historySettings `envconfig:"HISTORY"`

	MemoryMaxKeys    int           `envconfig:"MEMORY_MAX_KEYS" default:"1000000"`
	DataDir          string        `envconfig:"DATA_DIR" default:"./weir-data"`
	DataSaveInterval time.Duration `envconfig:"DATA_SAVE_INTERVAL" default:"60s"`

	DrainDelay   time.Duration `envconfig:"DRAIN_DELAY" default:"5s"`
	DrainTimeout time.Duration `envconfig:"DRAIN_TIMEOUT" default:"20s"`

	LogLevel  logLevel `envconfig:"LOG_LEVEL" default:"info"`
	LogFormat string   `envconfig:"LOG_FORMAT" default:"text"`

	GOGC string `envconfig:"GOGC"`
}

// readSettings reads the environment of a program that was started by this name. Its error names the variable and what
// it may hold.
func readSettings(as program) (settings, error) {
	var s settings
	if err := envconfig.Process("", &s); err != nil {
		return s, explainSetting(err)
	}
	if as == dropIn {
		s.asRatelimit()
	}
	return s, s.check()
}

// explainSetting says envconfig's error in the words of someone who sets variables.
func explainSetting(err error) error {
	wrong, ok := err.(*envconfig.ParseError)
	if ok && os.Getenv(wrong.KeyName) == "" { // it names the part that the variable belongs to as well
		_, wrong.KeyName, _ = strings.Cut(wrong.KeyName, "_")
	}
	switch {
	case ok && wrong.TypeName == "uint16":
		return fmt.Errorf("environment variable %s=%q: a port is a number from 0 to 65535", wrong.KeyName, wrong.Value)
	case ok && strings.HasSuffix(wrong.TypeName, "bool"):
		return fmt.Errorf("environment variable %s=%q: use true or false", wrong.KeyName, wrong.Value)
	case ok && wrong.TypeName == "time.Duration":
		return fmt.Errorf("environment variable %s=%q: use a number with its unit, as in 15s, 10m or 24h, up to 2562047h",
			wrong.KeyName, wrong.Value)
	case ok && wrong.TypeName == "int":
		return fmt.Errorf("environment variable %s=%q: use a whole number", wrong.KeyName, wrong.Value)
	case ok:
		return fmt.Errorf("environment variable %s=%q: %w", wrong.KeyName, wrong.Value, wrong.Err)
	}
	return fmt.Errorf("environment: %w", err)
}

func (s *settings) check() error {
	if err := s.checkBackend(); err != nil {
		return err
	}
	if err := s.guard().Check(); err != nil {
		return fmt.Errorf("environment variable %w", err)
	}
	if err := s.History.check(); err != nil {
		return err
	}
	if err := s.checkAnswers(); err != nil {
		return err
	}
	if s.MemoryMaxKeys < 1 {
		return fmt.Errorf("environment variable MEMORY_MAX_KEYS=%d: at least 1 is needed", s.MemoryMaxKeys)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		return fmt.Errorf("environment variable LOG_FORMAT=%q: use text or json", s.LogFormat)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"DRAIN_DELAY", s.DrainDelay}, {"DRAIN_TIMEOUT", s.DrainTimeout}, {"DATA_SAVE_INTERVAL", s.DataSaveInterval},
		{"GRPC_MAX_CONNECTION_AGE", s.MaxConnectionAge}, {"GRPC_MAX_CONNECTION_AGE_GRACE", s.MaxConnectionAgeGrace}} {
		if d.value < 0 {
			return fmt.Errorf("environment variable %s=%v: it cannot be negative", d.name, d.value)
		}
	}
	return nil
}

// configDir is where the descriptor files are, unless --config says otherwise.
func (s *settings) configDir() string {
	return filepath.Join(s.RuntimeRoot, s.RuntimeSubdirectory, s.RuntimeAppdirectory)
}

// grpcAddress is where gRPC is served: the unix socket goes before the port.
func (s *settings) grpcAddress() string {
	if s.GRPCUnix != "" {
		return "unix:" + s.GRPCUnix
	}
	return address(s.GRPCHost, s.GRPCPort)
}

// address joins a host, in brackets or not, and a port.
func address(host string, port uint16) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
}

func (s *settings) logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// algorithm is a descriptors.Algorithm that envconfig can read.
type algorithm descriptors.Algorithm

// Decode reads the algorithm's name.
func (a *algorithm) Decode(value string) error {
	parsed, err := descriptors.ParseAlgorithm(value)
	*a = algorithm(parsed)
	return err
}

// logLevel is a slog.Level that envconfig can read.
type logLevel slog.Level

// Decode reads a level by the names that envoyproxy/ratelimit takes, in any case.
func (l *logLevel) Decode(value string) error {
	switch strings.ToLower(value) {
	case "trace", "debug":
		*l = logLevel(slog.LevelDebug)
	case "info":
		*l = logLevel(slog.LevelInfo)
	case "warn", "warning":
		*l = logLevel(slog.LevelWarn)
	case "error", "fatal", "panic":
		*l = logLevel(slog.LevelError)
	default:
		return fmt.Errorf("%q is not a log level: use one of debug, info, warning, error", value)
	}
	return nil
}
