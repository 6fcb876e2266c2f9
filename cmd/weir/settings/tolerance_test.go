package settings

import (
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// Values with which envoyproxy/ratelimit starts.
func TestWhateverStartsRatelimitStartsWeir(t *testing.T) {
	for _, values := range strings.Fields(`LOG_FORMAT=JSON|Json|xml| LOG_LEVEL=WARNING|Trace|panic BACKEND_TYPE= NEAR_LIMIT_RATIO=0|1.5|80|-1|NaN|1e-3
		LIMIT_LIMIT_HEADER=|a:b LIMIT_RESET_HEADER=X:Reset SHADOW_MODE=1|t|True|FALSE|0|F REDIS_PERSECOND=False|f REDIS_TLS=T PORT=0x1F90|0
		GRPC_MAX_CONNECTION_AGE=-1s|0|1h30m GRPC_MAX_CONNECTION_AGE_GRACE=-1m REDIS_TYPE=SINGLE|Single REDIS_SOCKET_TYPE=tcp4|tcp6|unix
		REDIS_POOL_SIZE=0|1 REDIS_TIMEOUT=0|-1s|10s REDIS_PIPELINE_WINDOW=-1us|150us REDIS_PIPELINE_LIMIT=-1|8
		REDIS_CLUSTER_PIPELINE_PARALLELISM=-1|0|4 REDIS_POOL_ON_EMPTY_BEHAVIOR=|wait|CREATE|error|other REDIS_STARTUP_INITIAL_INTERVAL=-1s|0
		REDIS_STARTUP_MAX_INTERVAL=-1s REDIS_STARTUP_MAX_ELAPSED_TIME=-1s EXPIRATION_JITTER_MAX_SECONDS=-5|0|0x10
		LOCAL_CACHE_SIZE_IN_BYTES=-5|100 XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=-1|0 XDS_CLIENT_BACKOFF_MAX_INTERVAL=-1s
		XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0|-1|3 STATSD_PROTOCOL=|UDP|tcp6|quic EXTRA_TAGS=|a:b,c:d RUNTIME_APPDIRECTORY= HOST=|::|[::]
		ALGORITHM= KEY_FORMAT= ON_BACKEND_FAILURE= HISTORY= REPLICAS= DRAIN_DELAY= DATA_DIR= HISTORY_RETENTION= RING_ON_NODE_LOSS=
		HISTORY_DOWNSAMPLE=`) { // the last two lines are weir's own, which envoyproxy/ratelimit does not read
		name, all, _ := strings.Cut(values, "=")
		for value := range strings.SplitSeq(all, "|") {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv(name, value)
				if _, err := Read(dropIn); err != nil {
					t.Errorf("it ends with %v, though envoyproxy/ratelimit starts", err)
				}
			})
		}
	}
}

func TestAValueThatCannotBeMeantBecomesTheNearest(t *testing.T) {
	for name, value := range map[string]string{
		"NEAR_LIMIT_RATIO": "0", "REDIS_TIMEOUT": "-1s", "LIMIT_LIMIT_HEADER": "a b", "REDIS_SOCKET_TYPE": "unix", "REDIS_TYPE": "Sentinel",
		"REDIS_URL": "primary,:26379", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "-1s",
	} {
		t.Setenv(name, value)
	}
	s := mustRead(t, dropIn)
	if near := uint64(1e9 * s.NearRatio); near != 0 || s.NearRatio <= 0 {
		t.Errorf("a ratio of 0 is %v, of which a limit of 1e9 is near at %d; want all hits near, and not the default", s.NearRatio, near)
	}
	if s.Redis.Timeout != 0 || s.LimitHeader != "" || s.Redis.SocketType != "" || s.XDSFirstPause != 0 {
		t.Errorf("the settings are %+v", s)
	}
}

// envoyproxy/ratelimit reads the files of TLS only where TLS is on, and of half a pair none.
func TestFilesOfTLSThatNobodyReadsNeedNotBeThere(t *testing.T) {
	for _, tc := range []struct {
		tls                     string
		ca, cert, key           string
		wantCA, wantCert, wantK string
	}{
		{"false", "ca", "cert", "key", "", "", ""},
		{"true", "ca", "cert", "key", "ca", "cert", "key"},
		{"true", "ca", "cert", "", "ca", "", ""},
		{"true", "", "", "key", "", "", ""},
	} {
		t.Setenv("REDIS_TLS", tc.tls)
		t.Setenv("REDIS_TLS_CACERT", tc.ca)
		t.Setenv("REDIS_TLS_CLIENT_CERT", tc.cert)
		t.Setenv("REDIS_TLS_CLIENT_KEY", tc.key)
		t.Setenv("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", tc.cert)
		t.Setenv("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", tc.key)
		s, err := Read(dropIn)
		both := &s.BothRedis
		if err != nil || both.TLSCacert != tc.wantCA || both.TLSClientCert != tc.wantCert || both.TLSClientKey != tc.wantK {
			t.Errorf("%+v: got %q, %q and %q, %v", tc, both.TLSCacert, both.TLSClientCert, both.TLSClientKey, err)
		}
		if (s.XDSClientCert == "") != (s.XDSClientKey == "") {
			t.Errorf("%+v: towards the configuration server got %q and %q, want both or none", tc, s.XDSClientCert, s.XDSClientKey)
		}
	}
}

func TestACredentialIsTakenFromTheVariableBeforeTheURL(t *testing.T) {
	for _, tc := range []struct {
		kind                             topology.Type
		url, auth, sentinel              string
		wantURL, wantAuth, wantSentinels string
	}{
		{topology.Single, "redis://ann:old@r:1/2", "", "", "redis://ann:old@r:1/2", "", ""},
		{topology.Single, "redis://ann:old@r:1/2", "new", "", "redis://r:1/2", "ann:new", ""},
		{topology.Single, "redis://ann@r:1?db=2", "new", "", "redis://r:1?db=2", "ann:new", ""},
		{topology.Single, "redis://r:1?username=ann&password=old&x=1", "new", "", "redis://r:1", "ann:new", ""},
		{topology.Single, "redis://r:1?password=old&x=1", "", "", "redis://r:1?password=old", "", ""},
		{topology.Single, "redis://ann:old@r:1", "bob:new", "", "redis://r:1", "bob:new", ""},
		{topology.Single, "r:1", "new", "", "r:1", "new", ""},
		{topology.Sentinel, "p,redis://:old@s:1,s:2", "main", "new", "p,redis://s:1,s:2", "main", "new"},
		{topology.Sentinel, "p,redis://:old@s:1", "main", "", "p,redis://:old@s:1", "main", ""},
		{topology.Cluster, "redis://ann:old@a:1,redis://ann:old@b:1", "new", "", "redis://a:1,redis://b:1", "ann:new", ""},
	} {
		s := Redis{Type: tc.kind, URL: tc.url, Auth: tc.auth, SentinelAuth: tc.sentinel}
		if s.tolerate(); s.URL != tc.wantURL || s.Auth != tc.wantAuth || s.SentinelAuth != tc.wantSentinels {
			t.Errorf("%+v becomes %q with %q and %q", tc, s.URL, s.Auth, s.SentinelAuth)
		}
	}
}
