package dropin_test

import (
	"errors"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	configpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestEnvoyAIGatewaysSampleStartsWithItsFlagAndItsQuotas(t *testing.T) {
	onNode(t, func(t *testing.T) {
		awaitRoomInHour()
		redis := redistest.Single(t)
		redistest.ProxyAt(t, "127.0.0.1:6379", redis.Addr)
		control := startControlPlane(t, "127.0.0.1:18002", "envoy-ai-gateway-ratelimit", nil)
		weir := container{
			Host: "envoy-ai-gateway-ratelimit-5d9f8c7b6-h4j7n", User: 65532,
			Command: []string{"/bin/ratelimit", "--quotaRateLimitServiceAddr=envoy-ai-gateway-ratelimit.envoy-gateway-system:8081"},
		}.start(t, kubernetes([]string{
			"LOG_LEVEL=debug", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis.redis-system.svc.cluster.local:6379",
			"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW",
			"CONFIG_GRPC_XDS_NODE_ID=envoy-ai-gateway-ratelimit",
			"CONFIG_GRPC_XDS_SERVER_URL=ai-gateway-controller.envoy-ai-gateway-system.svc.cluster.local:18002", "GRPC_PORT=8081",
		}, "envoy-ai-gateway-ratelimit:8081"))
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:8080/healthcheck", 200) })

		const backend, model = "default/openai", "gpt-5"
		quota := func(requests uint32, rule string) *configpb.RateLimitDescriptor {
			d := chain(requests, configpb.RateLimitUnit_HOUR, rule, rule)
			d.QuotaMode = true
			return d
		}
		version := control.set(t, limits("ai-gateway-quota", &configpb.RateLimitDescriptor{
			Key: "backend_name", Value: backend, Descriptors: []*configpb.RateLimitDescriptor{{
				Key: "model_name_override", Value: model,
				Descriptors: []*configpb.RateLimitDescriptor{quota(1, "rule-0-x-tier|free-match-0"), quota(2, "rule-1-x-tier|paid-match-0")},
			}},
		}))
		weirtest.Eventually(t, "the quotas are accepted", func() error { return errors.Join(weir.Ended(), control.accepted(version)) })

		client := weirtest.Dial(t, "127.0.0.1:8081")
		of := func(rule string) *descriptorpb.RateLimitDescriptor {
			return weirtest.Describe("backend_name", backend, "model_name_override", model, rule, rule)
		}
		wantVerdicts(t, "quotas of 1 and 2 are over once all are", func() (string, error) {
			return client.Verdict("ai-gateway-quota", of("rule-0-x-tier|free-match-0"), of("rule-1-x-tier|paid-match-0"))
		}, "OK: OK OK", "OK: OVER_LIMIT OK", "OVER_LIMIT: OVER_LIMIT OVER_LIMIT")
		if got := counted(t, redis, "ai-gateway-quota_backend_name_"+backend+"_model_name_override_"+model+"_rule-0"); got != 3 {
			t.Errorf("GET of the first quota's key is %d, want 3, as Envoy AI Gateway's own test reads it", got)
		}
	})
}
