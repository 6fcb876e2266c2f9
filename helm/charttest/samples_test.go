package charttest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
)

// sampleOfRatelimit starts the pod of a sample in which weir takes the place of envoyproxy/ratelimit. more are variables that
// only name where things are; REDIS_URL is a Redis of the test.
func sampleOfRatelimit(t *testing.T, sample string, more map[string]string) *weir {
	t.Helper()
	objects, err := readFile(filepath.Join(k8sDir, sample))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"REDIS_URL": startRedis(t), "REDIS_AUTH": "secret"}
	for _, name := range []string{"GRPC_PORT", "PORT", "DEBUG_PORT"} {
		env[name] = fmt.Sprint(freePort(t))
	}
	for name, value := range more {
		env[name] = value
	}
	for _, o := range objects {
		pod := podOf(decode(t, o))
		if pod == nil {
			continue
		}
		c := pod.Spec.Containers[0]
		if len(c.Command) != 1 || c.Command[0] != "/bin/ratelimit" {
			t.Fatalf("%s runs %v, and not what its users have", sample, c.Command)
		}
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return env[e.Name] != "" })
		for name, value := range env {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
		files := mountAll(t, objects, &pod.Spec, &c)
		var vars []string
		for _, e := range c.Env {
			vars = append(vars, e.Name+"="+files.under(e.Value))
		}
		run(t, vars, filepath.Join(filepath.Dir(weirBinary), "ratelimit"), c.Args...)
		awaitStatus(t, "http://127.0.0.1:"+env["PORT"]+"/healthcheck", 200)
		return &weir{grpc: "127.0.0.1:" + env["GRPC_PORT"]}
	}
	t.Fatalf("%s has no Deployment", sample)
	return nil
}

func TestIstiosSampleLimitsWithTheImageSwapped(t *testing.T) {
	w := sampleOfRatelimit(t, "istio/rate-limit-service.yaml", nil)
	for i, want := range []int{0, 1, 1} {
		if out, code := call(t, "call", "--addr", w.grpc, "--domain", "echo-ratelimit", "--descriptor", "PATH=/", "--timeout", "10s"); code != want {
			t.Errorf("call %d ends with %d, want %d of one a minute: %s", i+1, code, want, out)
		}
	}
}

func TestEnvoyAIGatewaysSampleTakesItsQuotas(t *testing.T) {
	s := &ads{asked: make(chan string, 9), acked: make(chan string, 9), domain: &limits.RateLimitConfig{Name: "ai-gateway-quota", Domain: "ai-gateway-quota",
		Descriptors: []*limits.RateLimitDescriptor{{Key: "backend_name", Value: "ns/b", Descriptors: []*limits.RateLimitDescriptor{{Key: "model_name_override", Value: "m",
			QuotaMode: true, RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_HOUR, RequestsPerUnit: 1}}}}}}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	s.serve(t, server, listener)
	w := sampleOfRatelimit(t, "envoy-ai-gateway/ratelimit.yaml", map[string]string{"CONFIG_GRPC_XDS_SERVER_URL": listener.Addr().String()})
	if got, want := <-s.asked, "envoy-ai-gateway-ratelimit map[] []"; got != want {
		t.Errorf("weir says that it is %q, want %q, for which the controller has quotas", got, want)
	}
	<-s.acked
	for i, want := range []int{0, 1} {
		if out, code := call(t, "call", "--addr", w.grpc, "--domain", "ai-gateway-quota", "--descriptor", "backend_name=ns/b,model_name_override=m",
			"--timeout", "10s"); code != want {
			t.Errorf("call %d ends with %d, want %d of a quota of one: %s", i+1, code, want, out)
		}
	}
}

// What a sample sets, or says that one can set, is a variable that weir knows.
func TestSamplesSetVariablesThatWeirKnows(t *testing.T) {
	listed, found := documentedVariables(t), 0
	variable := regexp.MustCompile(`name: ([A-Z][A-Z0-9_]+)`)
	for _, sample := range []string{"istio/rate-limit-service.yaml", "envoy-gateway/drop-in.yaml", "envoy-ai-gateway/ratelimit.yaml"} {
		text, err := os.ReadFile(filepath.Join(k8sDir, sample))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			if found++; !slices.Contains(listed, m[1]) {
				t.Errorf("k8s/%s sets %s, which ENVIRONMENT.md does not list", sample, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d variables in the samples: this test looks in the wrong place", found)
	}
}
