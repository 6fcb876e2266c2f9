package charttest

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// sampleOfRatelimit starts the pod of a sample in which weir takes the place of envoyproxy/ratelimit. more are variables that
// only name where things are; REDIS_URL is a Redis of the test.
func sampleOfRatelimit(t *testing.T, sample string, more map[string]string) (*weir, *redistest.Server) {
	t.Helper()
	objects, err := readFile(filepath.Join(k8sDir, sample))
	if err != nil {
		t.Fatal(err)
	}
	redis := startRedis(t)
	env := map[string]string{"REDIS_URL": redis.Addr, "REDIS_AUTH": "secret", "REDIS_TIMEOUT": "1m"}
	for _, name := range []string{"GRPC_PORT", "PORT", "DEBUG_PORT"} {
		env[name] = fmt.Sprint(process.Port(t))
	}
	maps.Copy(env, more)
	for _, o := range objects {
		pod := podOf(decode(t, o))
		if pod == nil {
			continue
		}
		c := pod.Spec.Containers[0]
		if len(c.Command) != 1 || c.Command[0] != "/bin/ratelimit" {
			t.Fatalf("%s runs %v, and not what its users have", sample, c.Command)
		}
		c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(e corev1.EnvVar) bool { return env[e.Name] != "" })
		for name, value := range env {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
		files := mountAll(t, objects, &pod.Spec, &c)
		var vars []string
		for _, e := range c.Env {
			vars = append(vars, e.Name+"="+files.under(e.Value))
		}
		ratelimit := process.Start(t, "ratelimit", vars, process.Ratelimit(t), c.Args...)
		ratelimit.AwaitReady(t, answers("http://127.0.0.1:"+env["PORT"]+"/healthcheck", 200))
		return &weir{grpc: "127.0.0.1:" + env["GRPC_PORT"]}, redis
	}
	t.Fatalf("%s has no Deployment", sample)
	return nil, nil
}

func TestIstiosSampleLimitsWithTheImageSwapped(t *testing.T) {
	t.Parallel()
	w, redis := sampleOfRatelimit(t, "istio/rate-limit-service.yaml", nil)
	inOneMinute(t, func(string) error {
		if err := redis.Client().FlushAll(t.Context()).Err(); err != nil {
			return err
		}
		return wantCodes(t, w, "echo-ratelimit", "PATH=/", 0, 1, 1)
	})
}

func TestEnvoyAIGatewaysSampleTakesItsQuotas(t *testing.T) {
	t.Parallel()
	s := &ads{asked: make(chan string, 9), acked: make(chan string, 9), domain: &limits.RateLimitConfig{Name: "ai-gateway-quota", Domain: "ai-gateway-quota",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "backend_name", Value: "ns/b", Descriptors: []*limits.RateLimitDescriptor{{Key: "model_name_override", Value: "m",
			QuotaMode: true, RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_DAY, RequestsPerUnit: 1}}}}}}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	s.serve(t, server, listener)
	w, _ := sampleOfRatelimit(t, "envoy-ai-gateway/ratelimit.yaml", map[string]string{"CONFIG_GRPC_XDS_SERVER_URL": listener.Addr().String()})
	if got, want := <-s.asked, "envoy-ai-gateway-ratelimit map[] []"; got != want {
		t.Errorf("weir says that it is %q, want %q, for which the controller has quotas", got, want)
	}
	<-s.acked
	if err := wantCodes(t, w, "ai-gateway-quota", "backend_name=ns/b,model_name_override=m", 0, 1); err != nil {
		t.Errorf("a quota of one: %v", err)
	}
}

// What a sample sets, or says that one can set, is a variable that weir knows.
func TestSamplesSetVariablesThatWeirKnows(t *testing.T) {
	t.Parallel()
	listed, found := documentedVariables(t), 0
	variable := regexp.MustCompile(`name: ([A-Z][A-Z0-9_]+)`)
	for _, sample := range []string{"istio/rate-limit-service.yaml", "envoy-gateway/drop-in.yaml", "envoy-ai-gateway/ratelimit.yaml"} {
		for _, m := range variable.FindAllStringSubmatch(readText(t, filepath.Join(k8sDir, sample)), -1) {
			if found++; !slices.Contains(listed, m[1]) {
				t.Errorf("k8s/%s sets %s, which ENVIRONMENT.md does not list", sample, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d variables in the samples: this test looks in the wrong place", found)
	}
}
