{{/* Envoy's filter that asks weir: dict "root" . "service" how its gRPC is reached. */}}
{{- define "weir.envoyFilter" -}}
{{- $mesh := .root.Values.mesh -}}
name: envoy.filters.http.ratelimit
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
  domain: {{ $mesh.domain | quote }}
  timeout: {{ include "weir.seconds" $mesh.timeout }}
  failure_mode_deny: {{ $mesh.failureModeDeny }}
  {{- if $mesh.headers }}
  enable_x_ratelimit_headers: DRAFT_VERSION_03
  {{- end }}
  rate_limit_service:
    transport_api_version: V3
    grpc_service:
      envoy_grpc:
        {{- .service | nindent 8 }}
{{- end -}}

{{/* What makes Envoy's virtual host ask. */}}
{{- define "weir.rateLimits" -}}
rate_limits:
  {{- toYaml .Values.mesh.rateLimits | nindent 2 }}
{{- end -}}

{{/* The patches of an EnvoyFilter that put mesh.bounds before the other routes: dict "root" . "match" where these are. */}}
{{- define "weir.istioBounds" -}}
{{- range .root.Values.mesh.bounds }}
- applyTo: HTTP_ROUTE
  match:
    {{- $.match | nindent 4 }}
  patch:
    operation: INSERT_FIRST
    value:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* 100ms as protobuf's JSON has it, 0.1s. */}}
{{- define "weir.seconds" -}}
{{- if hasSuffix "ms" . -}}
{{- divf (trimSuffix "ms" . | float64) 1000.0 }}s
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* The cluster that Istio makes of weir's Service: it keeps the mesh's endpoints and mTLS, which one of our own would not. */}}
{{- define "weir.istioService" -}}
cluster_name: outbound|{{ .Values.grpc.port }}||{{ include "weir.host" . }}
authority: {{ include "weir.host" . }}
{{- end -}}

{{/* A cluster of our own: dict "name" "weir" "type" "STRICT_DNS" "address" how it is reached. */}}
{{- define "weir.envoyCluster" -}}
name: {{ .name }}
type: {{ .type }}
connect_timeout: 1s
load_assignment:
  cluster_name: {{ .name }}
  endpoints:
    - lb_endpoints:
        - endpoint:
            address:
              {{- .address | nindent 14 }}
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config:
      http2_protocol_options: {}
{{- end -}}

{{/* What a cluster of an Envoy's own needs besides where weir serves by TLS. The files are the Envoy's. */}}
{{- define "weir.transportSocket" -}}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: {{ include "weir.host" . }}
    common_tls_context:
      {{- if .Values.grpc.tls.clientCAKey }}
      tls_certificates:
        - certificate_chain: {filename: /etc/envoy/tls.crt}
          private_key: {filename: /etc/envoy/tls.key}
      {{- end }}
      validation_context:
        trusted_ca: {filename: /etc/envoy/ca.crt}
        match_typed_subject_alt_names:
          - san_type: DNS
            matcher: {exact: {{ include "weir.host" . }}}
{{- end -}}

{{/* The EnvoyFilter that lets a gateway ask weir. */}}
{{- define "weir.istioGateway" -}}
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata:
  {{- include "weir.nameInNamespace" (dict "root" . "namespace" .Values.istio.gateway.namespace "suffix" "-gateway") | nindent 2 }}
  {{- include "weir.metadata" (dict "root" . "component" "mesh") | nindent 2 }}
spec:
  {{- with .Values.istio.gateway.selector }}
  workloadSelector:
    labels:
      {{- toYaml . | nindent 6 }}
  {{- end }}
  configPatches:
    - applyTo: HTTP_FILTER
      match:
        context: GATEWAY
        listener:
          filterChain:
            filter:
              name: envoy.filters.network.http_connection_manager
              subFilter:
                name: envoy.filters.http.router
      patch:
        operation: INSERT_BEFORE
        value:
          {{- include "weir.envoyFilter" (dict "root" . "service" (include "weir.istioService" .)) | nindent 10 }}
    - applyTo: VIRTUAL_HOST
      match:
        context: GATEWAY
      patch:
        operation: MERGE
        value:
          {{- include "weir.rateLimits" . | nindent 10 }}
    {{- include "weir.istioBounds" (dict "root" . "match" "context: GATEWAY") | nindent 4 }}
{{- end -}}

{{/* Where a cluster of Envoy's own finds weir: all pods, by the headless Service, or else the Service, which alone keeps to the node. */}}
{{- define "weir.socketAddress" -}}
{{- $name := and .Values.service.headless.enabled (eq .Values.kind "Deployment") | ternary (printf "%s-headless" (include "weir.fullname" .)) (include "weir.fullname" .) -}}
socket_address:
  address: {{ $name }}.{{ include "weir.namespace" . }}.svc.{{ .Values.mesh.clusterDomain }}
  port_value: {{ .Values.grpc.port }}
{{- end -}}
