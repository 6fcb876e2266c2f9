package config

import (
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

func TestSignalsGoWhereVariablesSay(t *testing.T) {
	for _, tc := range []struct {
		variables                                     string
		traces, hits, tracesByGRPC, hitsByGRPC, fails bool
	}{
		{"", false, false, false, false, false},
		{"TRACING_ENABLED=true", true, false, false, false, false},
		{"TRACING_ENABLED=true OTEL_METRICS_EXPORTER=none,otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", true, true, true, true, false},
		{"TRACING_ENABLED=true OTEL_METRICS_EXPORTER=otlp TRACING_EXPORTER_PROTOCOL=grpc", true, true, true, false, false},
		{"TRACING_ENABLED=true TRACING_EXPORTER_PROTOCOL=http OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", true, false, false, false, false},
		{"OTEL_METRICS_EXPORTER=otlp OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc", false, true, false, true, false},
		{"TRACING_ENABLED=true OTEL_METRICS_EXPORTER=otlp OTEL_SDK_DISABLED=TRUE", false, false, false, false, false},
		{"TRACING_EXPORTER_PROTOCOL=http/json", false, false, false, false, false}, // nothing is sent
		{"TRACING_ENABLED=true TRACING_EXPORTER_PROTOCOL=http/json", false, false, false, false, true},
		{"TRACING_ENABLED=true TRACING_SAMPLING_RATE=50", false, false, false, false, true},
		{"OTEL_METRICS_EXPORTER=console", false, false, false, false, true},
	} {
		s, err := Read(Of(strings.Fields(tc.variables)...))
		if err != nil {
			if !tc.fails {
				t.Errorf("%s: %v", tc.variables, err)
			}
			continue
		}
		if tc.fails || s.SendsTraces() != tc.traces || s.SendsHits() != tc.hits || s.TracesByGRPC() != tc.tracesByGRPC || s.HitsByGRPC() != tc.hitsByGRPC {
			t.Errorf("%s: traces %v, hits %v, by gRPC %v and %v; want %+v", tc.variables, s.SendsTraces(), s.SendsHits(), s.TracesByGRPC(), s.HitsByGRPC(), tc)
		}
	}
}

// What a variable of weir's says of the process goes before OpenTelemetry's, and that before what weir makes up.
func TestTheResourceIsTheNearestVariables(t *testing.T) {
	name := func(s Settings) (service, instance, pod string) {
		r := s.Resource("1.2.3", slog.New(slog.DiscardHandler)).Set()
		get := func(key attribute.Key) string {
			value, _ := r.Value(key)
			return value.AsString()
		}
		if version := get(semconv.ServiceVersionKey); version != "1.2.3" {
			t.Errorf("the version is %s, want that of the binary", version)
		}
		return get(semconv.ServiceNameKey), get(semconv.ServiceInstanceIDKey), get(semconv.K8SPodNameKey)
	}
	service, first, _ := name(Settings{})
	if _, second, _ := name(Settings{}); service != "weir" || first == "" || first == second {
		t.Errorf("the process is %s %s, then %s; want weir, and another instance at each start", service, first, second)
	}
	t.Setenv("OTEL_SERVICE_NAME", "limits")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=weir-abc,service.instance.id=given,service.version=0")
	if service, instance, pod := name(Settings{}); service != "limits" || instance != "given" || pod != "weir-abc" {
		t.Errorf("the process is %s %s in pod %s, want what OTEL_* say", service, instance, pod)
	}
	var s Settings
	s.ServiceName, s.InstanceID = "edge", "weir-0"
	if service, instance, pod := name(s); service != "edge" || instance != "weir-0" || pod != "weir-abc" {
		t.Errorf("the process is %s %s in pod %s, want what TRACING_* say, and the pod", service, instance, pod)
	}
}
