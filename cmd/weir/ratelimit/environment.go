package ratelimit

import (
	"errors"
	"maps"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server"
)

// defaults are the values of variables that are not set.
var defaults = config.Environment{
	"ALGORITHM": descriptors.FixedWindow.String(), "ON_BACKEND_FAILURE": "error", "BACKEND_TYPE": "redis", "USE_STATSD": "true",
	"DEBUG_PPROF": "true", "LOG_LEVEL": "warning", "RLQS_ENABLED": "false", "TRACING_SERVICE_NAME": "RateLimit",
	// The file system may be read-only, Redis is the operator's, and envoyproxy/ratelimit logs no denials.
	"DATA_DIR": "", "DENIAL_LOG_INTERVAL": "0", "DENIAL_METADATA": "false",
}

// sockets are the addresses of Redis unless variables name others.
var sockets = map[string]string{
	"REDIS_": "/var/run/nutcracker/ratelimit.sock", "REDIS_PERSECOND_": "/var/run/nutcracker/ratelimitpersecond.sock",
}

// takesAnyValue reports whether envoyproxy/ratelimit starts with any value of a variable that is of the right type.
func takesAnyValue(variable string) bool {
	const prefixes = `NEAR_LIMIT_RATIO LIMIT_ LOCAL_CACHE_SIZE EXPIRATION_JITTER LOG_FORMAT STATSD_PORT STATSD_PROTOCOL CONFIG_GRPC_XDS_ XDS_CLIENT_
		GRPC_MAX_CONNECTION_AGE GRPC_CLIENT_TLS_ REDIS_TIMEOUT REDIS_PERSECOND_TIMEOUT REDIS_STARTUP_ TRACING_SAMPLING_RATE OTEL_`
	return slices.ContainsFunc(strings.Fields(prefixes), func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
}

// inert returns what the names of variables begin with that have no effect in an environment, as their switch is off.
func inert(e config.Environment) (prefixes []string) {
	is := func(name string) bool { return isTrue(e[name]) }
	store, sends := e["BACKEND_TYPE"], !is("DISABLE_STATS")
	for _, of := range []struct {
		names string
		on    bool
	}{
		{"STATSD_", sends && (is("USE_STATSD") || is("USE_DOG_STATSD"))},
		{"DOG_STATSD_ USE_DOG_STATSD_", sends && is("USE_DOG_STATSD")},
		{"PROMETHEUS_", sends && is("USE_PROMETHEUS")},
		{"REDIS_", store == "redis" || e["REDIS_HISTORY_URL"]+e["REDIS_HISTORY_URL_FILE"] != ""},
		{"REDIS_PERSECOND_", store == "redis" && is("REDIS_PERSECOND")},
		{"MEMCACHE_", store == "memcache"},
		{"MEMORY_", store == "memory"},
		{"DATA_SAVE_", store == "memory" && e["DATA_DIR"] != ""},
		{"CONFIG_GRPC_XDS_ XDS_", strings.EqualFold(e["CONFIG_TYPE"], "GRPC_XDS_SOTW")},
		{"GRPC_SERVER_TLS_ GRPC_CLIENT_TLS_", is("GRPC_SERVER_USE_TLS")},
		{"HISTORY_", is("HISTORY")},
		{"RLQS_TTL RLQS_MAX_", is("RLQS_ENABLED")},
	} {
		if !of.on {
			prefixes = append(prefixes, strings.Fields(of.names)...)
		}
	}
	return prefixes
}

// Settings are weir's, with notes for [Settings.Warn].
type Settings struct {
	config.Settings
	refused []string // why weir's defaults hold instead of what variables say
}

// Read makes weir's settings of an environment of envoyproxy/ratelimit. Its error names the variable and what it may hold.
func Read(given config.Environment) (s Settings, err error) {
	e := translate(given)
	if _, err = config.Read(e); err != nil { // maybe for what that program would not look at
		off := inert(e)
		maps.DeleteFunc(e, func(name, _ string) bool {
			return slices.ContainsFunc(off, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		})
	}
	for {
		s.Settings, err = config.Read(e)
		wrong := new(config.WrongValue)
		if !errors.As(err, &wrong) || wrong.Unreadable || !takesAnyValue(wrong.Variable) || e[wrong.Variable] == "" {
			break
		}
		s.refused = append(s.refused, strings.TrimPrefix(wrong.Error(), "environment variable "))
		delete(e, wrong.Variable)
	}
	s.Lenient = true
	s.Compatibility = config.Compatibility{
		Ports:      server.Config{AnyJSONType: true, ReusePort: true, AdminLikeRatelimit: true},
		RenameLogs: renameLevels, StartLevel: shownInfo,
		FilesByPrefix: s.WatchRoot, EmptyConfig: true, HistoryInDataDir: true,
		HealthByStore: true, AlwaysCountAsRatelimit: true, OptionalSinks: true,
	}
	if s.LogsJSON() {
		s.RenameLogs = renameKeys
	}
	return s, err
}

// ReadFiles is Read for a tool that reads files and does nothing else.
func ReadFiles(given config.Environment) (config.Files, error) {
	files, err := config.ReadFiles(translate(given))
	files.Lenient = true
	return files, err
}

// translate returns the environment in which weir does what envoyproxy/ratelimit does in the given one.
func translate(given config.Environment) config.Environment {
	e := maps.Clone(given)
	for name, value := range defaults {
		if e[name] == "" {
			e[name] = value
		}
	}
	if e["KEY_FORMAT"] == "" && strings.EqualFold(e["ALGORITHM"], descriptors.FixedWindow.String()) {
		e["KEY_FORMAT"] = descriptors.KeysOfRatelimit.String()
	}
	if e["HISTORY"] == "" {
		e["HISTORY"] = strconv.FormatBool(e["REDIS_HISTORY_URL"]+e["REDIS_HISTORY_URL_FILE"]+e["DATA_DIR"] != "")
	}
	for prefix, socket := range sockets {
		translateRedis(e, prefix, socket)
	}
	if !reachesRedisByTLS(e) { // nobody reads the files there
		delete(e, "REDIS_TLS_CACERT")
		delete(e, "REDIS_TLS_CLIENT_CERT")
	}
	dropUnpaired(e, "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY")
	dropUnpaired(e, "MEMCACHE_TLS_CLIENT_CERT", "MEMCACHE_TLS_CLIENT_KEY")
	dropUnpaired(e, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY")
	return e
}

// reachesRedisByTLS reports whether a Redis is reached by TLS, as far as the environment tells.
func reachesRedisByTLS(e config.Environment) bool {
	return slices.ContainsFunc([]string{"REDIS_", "REDIS_PERSECOND_", "REDIS_HISTORY_"}, func(prefix string) bool {
		return isTrue(e[prefix+"TLS"]) || e[prefix+"URL_FILE"] != "" || strings.Contains(strings.ToLower(e[prefix+"URL"]), "rediss:")
	})
}

func isTrue(value string) bool {
	on, err := strconv.ParseBool(value)
	return err == nil && on
}

// dropUnpaired drops a certificate without a key, or a key without a certificate.
func dropUnpaired(e config.Environment, cert, key string) {
	if e[cert] == "" || e[key] == "" {
		delete(e, cert)
		delete(e, key)
	}
}

// translateRedis makes a socket the default, unless the URL has a port and can only be meant for TCP, and credentials
// of variables go before those of the URL. A URL in a file, which only weir knows, is left alone.
func translateRedis(e config.Environment, prefix, socket string) {
	url, socketType := e[prefix+"URL"], e[prefix+"SOCKET_TYPE"]
	single := e[prefix+"TYPE"] == "" || strings.EqualFold(e[prefix+"TYPE"], "single")
	if e[prefix+"URL_FILE"] == "" {
		if url == "" && socketType != "tcp" { // there is no such socket for TCP
			url = socket
		}
		if socketType == "" && single && !strings.Contains(url, ":") {
			socketType = "unix"
		}
		items, auth := []string{url}, prefix+"AUTH"
		if !single {
			items = strings.Split(url, ",")
		}
		if strings.EqualFold(e[prefix+"TYPE"], "sentinel") {
			auth = prefix + "SENTINEL_AUTH"
		}
		for i := range items {
			items[i], e[auth] = moveCredentials(items[i], e[auth])
		}
		url = strings.Join(items, ",")
	}
	switch {
	case !single:
		socketType = "" // which is for a single server alone
	case socketType == "tcp4", socketType == "tcp6":
		socketType = "tcp"
	}
	e[prefix+"URL"], e[prefix+"SOCKET_TYPE"] = url, socketType
}

// moveCredentials returns a URL of Redis without unknown parameters, and without credentials if auth has some: a variable
// goes before the URL. A user that the variable lacks is taken from the URL.
func moveCredentials(url, auth string) (string, string) {
	u, err := neturl.Parse(url)
	if err != nil || u.Scheme != "redis" {
		return url, auth
	}
	given, kept := u.Query(), make(neturl.Values)
	for _, name := range []string{"username", "password", "db"} {
		if given.Has(name) && (auth == "" || name == "db") {
			kept.Set(name, given.Get(name))
		}
	}
	if auth != "" {
		user := u.User.Username()
		if user == "" {
			user = given.Get("username")
		}
		if user != "" && !strings.Contains(auth, ":") {
			auth = user + ":" + auth
		}
		u.User = nil
	}
	u.RawQuery = kept.Encode()
	return u.String(), auth
}
