package config

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// SendsTraces reports whether spans go to a collector.
func (s *Telemetry) SendsTraces() bool { return s.TracingEnabled && !s.disabled() }

// SendsHits reports whether totals of hits go to a collector.
func (s *Telemetry) SendsHits() bool {
	return slices.Contains(strings.Split(s.MetricsExporter, ","), "otlp") && !s.disabled()
}

func (s *Telemetry) disabled() bool { return strings.EqualFold(s.SDKDisabled, "true") }

// TracesByGRPC reports whether spans go by gRPC rather than by HTTP.
func (s *Telemetry) TracesByGRPC() bool {
	return cmp.Or(s.TracingProtocol, s.TracesProtocol, s.Protocol) == "grpc"
}

// HitsByGRPC reports whether totals of hits go by gRPC rather than by HTTP.
func (s *Telemetry) HitsByGRPC() bool { return cmp.Or(s.MetricsProtocol, s.Protocol) == "grpc" }

// check returns an error that names the first invalid variable.
func (s *Telemetry) check() error {
	for exporter := range strings.SplitSeq(s.MetricsExporter, ",") {
		if exporter != "otlp" && exporter != "none" {
			return wrongValue("OTEL_METRICS_EXPORTER", s.MetricsExporter, "use otlp or none")
		}
	}
	if !s.SendsTraces() && !s.SendsHits() {
		return nil
	}
	protocol := func(variable, value string) error {
		return require(slices.Contains([]string{"", "grpc", "http", "http/protobuf"}, value), variable, value, "use grpc or http/protobuf")
	}
	return cmp.Or(
		require(s.SamplingRate >= 0 && s.SamplingRate <= 1, "TRACING_SAMPLING_RATE", s.SamplingRate, "use a number from 0 to 1"),
		protocol("TRACING_EXPORTER_PROTOCOL", s.TracingProtocol),
		protocol("OTEL_EXPORTER_OTLP_PROTOCOL", s.Protocol),
		protocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", s.TracesProtocol),
		protocol("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", s.MetricsProtocol),
	)
}

// Resource returns the attributes of this process in spans, totals and log lines. OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME, in which Kubernetes describes the pod, take precedence over weir's defaults, and TRACING_SERVICE_*
// over these.
func (s *Telemetry) Resource(version string, log *slog.Logger) *resource.Resource {
	var given []attribute.KeyValue
	for key, value := range map[attribute.Key]string{semconv.ServiceNameKey: s.ServiceName,
		semconv.ServiceNamespaceKey: s.Namespace, semconv.ServiceInstanceIDKey: s.InstanceID} {
		if value != "" {
			given = append(given, key.String(value))
		}
	}
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("weir"), semconv.ServiceInstanceID(uuid.NewString())),
		resource.WithFromEnv(), resource.WithAttributes(append(given, semconv.ServiceVersion(version))...))
	if err != nil {
		log.Warn("OTEL_RESOURCE_ATTRIBUTES is partly invalid", "error", err)
	}
	return r
}
