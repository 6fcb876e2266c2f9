{{/* One variable, if it has a value: list "NAME" value. Numbers may be null, texts empty: weir's default holds then. */}}
{{- define "weir.variable" -}}
{{- $value := index . 1 -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- name: {{ index . 0 }}
  value: {{ kindIs "float64" $value | ternary ($value | int64) $value | toString | quote }}
{{- end -}}
{{- end -}}

{{/* One variable out of a Secret: list "NAME" "secret" "key". */}}
{{- define "weir.secretVariable" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end -}}

{{/* What TLS to a store needs: dict "tls" values "prefix" "REDIS_TLS" "files" the folder of its files below /etc/weir. */}}
{{- define "weir.storeTLSEnv" -}}
{{- if .tls.existingSecret }}
{{- range $file, $key := dict "CACERT" .tls.caKey "CLIENT_CERT" .tls.certKey "CLIENT_KEY" .tls.keyKey }}
{{- if $key }}
- name: {{ $.prefix }}_{{ $file }}
  value: /etc/weir/{{ $.files }}/{{ $key }}
{{- end }}
{{- end }}
{{- end }}
{{- if .tls.skipHostnameVerification }}
- name: {{ .prefix }}_SKIP_HOSTNAME_VERIFICATION
  value: "true"
{{- end }}
{{- end -}}

{{/* What weir serve needs and the other commands do not. */}}
{{- define "weir.serveEnv" -}}
{{- $sidecar := eq .Values.mode "sidecar" -}}
{{- if $sidecar -}}
- name: GRPC_UDS
  value: {{ .Values.sidecar.socket | quote }}
- name: HOST
  value: "127.0.0.1"
- name: PORT
  value: "0"
{{- else -}}
- name: GRPC_HOST
  value: {{ .Values.grpc.host | quote }}
- name: GRPC_PORT
  value: {{ .Values.grpc.port | quote }}
- name: HOST
  value: {{ .Values.http.host | quote }}
- name: PORT
  value: {{ .Values.http.port | quote }}
{{- end }}
{{ include "weir.adminEnv" . }}
{{- if not .Values.http.json }}
- name: JSON_ENABLED
  value: "false"
{{- end }}
{{- include "weir.variable" (list "GRPC_MAX_CONNECTION_AGE" .Values.grpc.maxConnectionAge) }}
{{- include "weir.variable" (list "GRPC_MAX_CONNECTION_AGE_GRACE" .Values.grpc.maxConnectionAgeGrace) }}
{{- include "weir.variable" (list "GRPC_MAX_CONNECTIONS" .Values.grpc.maxConnections) }}
{{- include "weir.variable" (list "GRPC_MAX_CONNECTIONS_PER_CLIENT" .Values.grpc.maxConnectionsPerClient) }}
{{- with .Values.grpc.quotas }}
{{- include "weir.variable" (list "RLQS_ENABLED" .enabled) }}
{{- include "weir.variable" (list "RLQS_TTL" .ttl) }}
{{- include "weir.variable" (list "RLQS_MAX_STREAMS" .maxStreams) }}
{{- include "weir.variable" (list "RLQS_MAX_BUCKETS" .maxBuckets) }}
{{- include "weir.variable" (list "RLQS_MAX_STREAM_BUCKETS" .maxStreamBuckets) }}
{{- end }}
{{- include "weir.grpcTLSEnv" .Values.grpc.tls }}
{{- include "weir.sourceEnv" . }}
{{- with .Values.answer }}
{{- range $name, $on := dict "LIMIT_RESPONSE_HEADERS_ENABLED" .limitHeaders.enabled "LIMIT_REQUEST_HEADERS_ENABLED" .requestHeaders.enabled "RETRY_AFTER_HEADER_ENABLED" .retryAfter "RESPONSE_DYNAMIC_METADATA" .dynamicMetadata "SHADOW_MODE" .shadowMode "QUOTA_MODE" .quotaMode "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" .spareOthers }}
{{- if $on }}
- name: {{ $name }}
  value: "true"
{{- end }}
{{- end }}
{{- include "weir.variable" (list "LIMIT_LIMIT_HEADER" .limitHeaders.limit) }}
{{- include "weir.variable" (list "LIMIT_REMAINING_HEADER" .limitHeaders.remaining) }}
{{- include "weir.variable" (list "LIMIT_RESET_HEADER" .limitHeaders.reset) }}
{{- include "weir.variable" (list "LIMIT_REQUEST_LIMIT_HEADER" .requestHeaders.limit) }}
{{- include "weir.variable" (list "LIMIT_REQUEST_REMAINING_HEADER" .requestHeaders.remaining) }}
{{- include "weir.variable" (list "LIMIT_REQUEST_RESET_HEADER" .requestHeaders.reset) }}
{{- include "weir.variable" (list "NEAR_LIMIT_RATIO" .nearLimitRatio) }}
{{- include "weir.variable" (list "DENIAL_METADATA" .denialMetadata) }}
{{- end }}
{{- with .Values.log.denials }}
{{- include "weir.variable" (list "DENIAL_LOG_INTERVAL" .interval) }}
{{- if .values }}
- name: DENIAL_LOG_VALUES
  value: "true"
{{- end }}
{{- end }}
{{- include "weir.filesEnv" . }}
{{- if .Values.unhealthyWithoutDomains }}
- name: HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED
  value: "true"
{{- end }}
{{- include "weir.variable" (list "CACHE_KEY_PREFIX" .Values.keyPrefix) }}
{{- if ne (include "weir.backend" .) "memory" }}
{{- $store := eq (include "weir.backend" .) "memcache" | ternary .Values.memcached .Values.redis }}
{{- include "weir.variable" (list "KEY_FORMAT" .Values.keyFormat) }}
{{- if .Values.calendarMonths }}
- name: USE_CALENDAR_MONTH_RATE_LIMIT
  value: "true"
{{- end }}
{{- include "weir.variable" (list "EXPIRATION_JITTER_MAX_SECONDS" $store.expirationJitterSeconds) }}
{{- include "weir.variable" (list "LOCAL_CACHE_SIZE_IN_BYTES" ($store.localCacheBytes | default "")) }}
- name: ON_BACKEND_FAILURE
  value: {{ include "weir.onFailure" . }}
{{- if not (kindIs "invalid" .Values.redis.leases) }}
- name: LEASES
  value: {{ .Values.redis.leases | quote }}
{{- end }}
{{- include "weir.variable" (list "REPLICAS" (include "weir.leastReplicas" .)) }}
{{- end }}
{{- if include "weir.hasData" . }}
- name: DATA_DIR
  value: /var/lib/weir
{{- end }}
{{- if eq (include "weir.backend" .) "memory" }}
{{- include "weir.variable" (list "MEMORY_MAX_KEYS" .Values.memory.maxKeys) }}
{{- include "weir.variable" (list "DATA_SAVE_INTERVAL" .Values.memory.saveInterval) }}
{{- end }}
- name: DRAIN_DELAY
  value: {{ printf "%vs" .Values.drain.delaySeconds }}
- name: DRAIN_TIMEOUT
  value: {{ printf "%vs" .Values.drain.timeoutSeconds }}
{{- include "weir.statisticsEnv" . }}
{{- include "weir.telemetryEnv" . }}
{{- if include "weir.keepsHistory" . }}
{{- if eq (include "weir.backend" .) "redis" }}
- name: HISTORY_DOWNSAMPLE
  value: {{ eq .Values.history.downsample.by "serve" | quote }}
{{- else if .Values.history.redis.urlSecret }}
- name: HISTORY_DOWNSAMPLE
  value: "true"
{{- end }}
{{- if not .Values.history.query.enabled }}
- name: HISTORY_QUERY
  value: "false"
{{- else }}
{{- include "weir.queryEnv" . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How descriptor files are read. */}}
{{- define "weir.filesEnv" }}
{{- if .Values.mergeDomains }}
- name: MERGE_DOMAIN_CONFIG
  value: "true"
{{- end }}
{{- end -}}

{{/* Where a process listens for operators, Prometheus and Grafana. */}}
{{- define "weir.adminEnv" -}}
- name: DEBUG_HOST
  value: {{ .Values.admin.host | quote }}
- name: DEBUG_PORT
  value: {{ .Values.admin.port | quote }}
{{- $hosts := list }}
{{- range $suffix, $made := dict "admin" (eq .Values.mode "service") "history" (eq (toString .Values.historyServer.enabled) "true") }}
{{- if $made }}
{{- $name := printf "%s-%s" (include "weir.fullname" $) $suffix }}
{{- $full := printf "%s.%s" $name (include "weir.namespace" $) }}
{{- $hosts = concat $hosts (list $name $full (printf "%s.svc" $full) (printf "%s.svc.%s" $full $.Values.mesh.clusterDomain)) }}
{{- end }}
{{- end }}
{{- if .Values.ingress.enabled }}
{{- $hosts = concat $hosts .Values.ingress.hosts }}
{{- end }}
{{- if .Values.httpRoute.enabled }}
{{- $hosts = concat $hosts .Values.httpRoute.hostnames }}
{{- end }}
{{- include "weir.variable" (list "ADMIN_HOSTS" (concat $hosts (.Values.admin.hosts | default list) | uniq | join ",")) }}
{{- if include "weir.adminTokenSecret" . }}
- name: ADMIN_TOKEN_FILE
  value: /etc/weir/admin/{{ .Values.admin.token.key }}
{{- end }}
{{- if .Values.admin.readToken.existingSecret }}
- name: ADMIN_READ_TOKEN_FILE
  value: /etc/weir/admin-read/{{ .Values.admin.readToken.key }}
{{- end }}
{{- if or .Values.admin.profiles (eq .Values.program "ratelimit") }}
- name: DEBUG_PPROF
  value: {{ eq (toString .Values.admin.profiles) "true" | quote }}
{{- end }}
{{- end -}}

{{/* What bounds queries over the history. */}}
{{- define "weir.queryEnv" -}}
{{- with .Values.history.query }}
{{- include "weir.variable" (list "HISTORY_QUERY_CONCURRENCY" .concurrency) }}
{{- include "weir.variable" (list "HISTORY_QUERY_MAX_SAMPLES" .maxSamples) }}
{{- include "weir.variable" (list "HISTORY_QUERY_TIMEOUT" .timeout) }}
{{- end }}
{{- end -}}

{{/* What every command of weir needs that counts or reads what was counted. */}}
{{- define "weir.storeEnv" -}}
- name: BACKEND_TYPE
  value: {{ include "weir.backend" . }}
- name: ALGORITHM
  value: {{ include "weir.algorithm" . }}
{{- if eq (include "weir.backend" .) "redis" }}
{{- include "weir.redisEnv" (dict "redis" .Values.redis "prefix" "REDIS" "files" "redis") }}
{{- include "weir.mainRedisEnv" .Values.redis }}
{{- else if eq (include "weir.backend" .) "memcache" }}
{{- include "weir.memcachedEnv" .Values.memcached }}
{{- end }}
{{- include "weir.historyEnv" . }}
- name: LOG_LEVEL
  value: {{ .Values.log.level }}
- name: LOG_FORMAT
  value: {{ .Values.log.format }}
{{- include "weir.variable" (list "GOGC" .Values.gogc) }}
{{- with .Values.extraEnv }}
{{ tpl (toYaml .) $ }}
{{- end }}
{{- end -}}

{{- define "weir.historyEnv" }}
- name: HISTORY
  value: {{ include "weir.keepsHistory" . | empty | ternary "false" "true" | quote }}
{{- if include "weir.keepsHistory" . }}
{{- with .Values.history }}
{{- include "weir.variable" (list "HISTORY_FLUSH_INTERVAL" .flushInterval) }}
{{- include "weir.variable" (list "HISTORY_RETENTION" .retention) }}
{{- include "weir.variable" (list "HISTORY_MAX_POINTS" .maxPoints) }}
{{- include "weir.variable" (list "HISTORY_VALUES" .values) }}
{{- include "weir.variable" (list "HISTORY_KEEP_MINUTES" .keep.minutes) }}
{{- include "weir.variable" (list "HISTORY_KEEP_5_MINUTES" .keep.fiveMinutes) }}
{{- include "weir.variable" (list "HISTORY_KEEP_HOURS" .keep.hours) }}
{{- if .redis.urlSecret }}
- name: REDIS_HISTORY_URL_FILE
  value: /etc/weir/history-url/{{ .redis.urlKey }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "weir.grpcTLSEnv" }}
{{- if .enabled }}
- name: GRPC_SERVER_USE_TLS
  value: "true"
- name: GRPC_SERVER_TLS_CERT
  value: /etc/weir/grpc-tls/{{ .certKey }}
- name: GRPC_SERVER_TLS_KEY
  value: /etc/weir/grpc-tls/{{ .keyKey }}
{{- if .clientCAKey }}
- name: GRPC_CLIENT_TLS_CACERT
  value: /etc/weir/grpc-tls/{{ .clientCAKey }}
{{- end }}
{{- include "weir.variable" (list "GRPC_CLIENT_TLS_SAN" .clientName) }}
{{- end }}
{{- end -}}

{{/* Where the limits come from, unless it is the argument --config. */}}
{{- define "weir.sourceEnv" -}}
{{- if .Values.xds.server }}
{{- with .Values.xds }}
- name: CONFIG_TYPE
  value: GRPC_XDS_SOTW
- name: CONFIG_GRPC_XDS_SERVER_URL
  value: {{ .server | quote }}
{{- include "weir.variable" (list "CONFIG_GRPC_XDS_NODE_ID" .node) }}
{{- include "weir.pairs" (list "CONFIG_GRPC_XDS_NODE_METADATA" "=" .metadata) }}
{{- include "weir.pairs" (list "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS" ":" .headers) }}
{{- with .tls }}
{{- if .enabled }}
- name: CONFIG_GRPC_XDS_SERVER_USE_TLS
  value: "true"
{{- range $name, $key := dict "CONFIG_GRPC_XDS_SERVER_TLS_CACERT" .caKey "CONFIG_GRPC_XDS_CLIENT_TLS_CERT" .certKey "CONFIG_GRPC_XDS_CLIENT_TLS_KEY" .keyKey }}
{{- if and $.Values.xds.tls.existingSecret $key }}
- name: {{ $name }}
  value: /etc/weir/xds-tls/{{ $key }}
{{- end }}
{{- end }}
{{- include "weir.variable" (list "CONFIG_GRPC_XDS_SERVER_TLS_SAN" .serverName) }}
{{- end }}
{{- end }}
{{- end }}
{{- else if eq .Values.program "ratelimit" }}
- name: RUNTIME_ROOT
  value: /etc/weir/descriptors
- name: RUNTIME_APPDIRECTORY
  value: ""
- name: RUNTIME_WATCH_ROOT
  value: "false"
{{- end }}
{{- end -}}

{{/* One variable that holds a map: list "NAME" "=" map, as key=value,key=value. */}}
{{- define "weir.pairs" -}}
{{- $pairs := list -}}
{{- $between := index . 1 -}}
{{- range $key, $value := index . 2 -}}
{{- $pairs = append $pairs (printf "%s%s%s" $key $between $value) -}}
{{- end -}}
{{- include "weir.variable" (list (index . 0) (join "," $pairs)) -}}
{{- end -}}

{{/* Of the sinks only statsd is on by default, and only in envoyproxy/ratelimit. */}}
{{- define "weir.statisticsEnv" -}}
{{- with .Values.statistics }}
{{- if or .statsd.enabled (eq $.Values.program "ratelimit") }}
- name: USE_STATSD
  value: {{ .statsd.enabled | quote }}
{{- end }}
{{- if .dogstatsd.enabled }}
- name: USE_DOG_STATSD
  value: "true"
{{- end }}
{{- if or .statsd.enabled .dogstatsd.enabled }}
{{- include "weir.variable" (list "STATSD_HOST" .statsd.host) }}
{{- include "weir.variable" (list "STATSD_PORT" .statsd.port) }}
{{- include "weir.variable" (list "STATSD_PROTOCOL" .statsd.protocol) }}
{{- include "weir.variable" (list "STATS_FLUSH_INTERVAL" .flushInterval) }}
{{- end }}
{{- if .prometheus.enabled }}
- name: USE_PROMETHEUS
  value: "true"
- name: PROMETHEUS_ADDR
  value: ":{{ .prometheus.port }}"
- name: PROMETHEUS_PATH
  value: {{ .prometheus.path }}
{{- if .prometheus.mapper.existingConfigMap }}
- name: PROMETHEUS_MAPPER_YAML
  value: /etc/weir/mapper/{{ .prometheus.mapper.key }}
{{- end }}
{{- if .prometheus.milliseconds }}
- name: PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS
  value: "true"
{{- end }}
{{- end }}
{{- include "weir.pairs" (list "EXTRA_TAGS" ":" .extraTags) }}
{{- end }}
{{- end -}}

{{/* A pod is an instance; what else Kubernetes knows of it, the collector finds by these names. */}}
{{- define "weir.telemetryEnv" -}}
{{- with .Values.telemetry }}
{{- if or .traces.enabled .metrics.enabled }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ required "telemetry.endpoint: the URL of an OpenTelemetry collector is needed, as in http://collector.observability:4317" .endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ .protocol }}
{{- if .headers.existingSecret }}
{{ include "weir.secretVariable" (list "OTEL_EXPORTER_OTLP_HEADERS" .headers.existingSecret .headers.key) }}
{{- end }}
- name: TRACING_SERVICE_INSTANCE_ID
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: "k8s.pod.name=$(TRACING_SERVICE_INSTANCE_ID),k8s.namespace.name={{ include "weir.namespace" $ }}"
{{- include "weir.variable" (list "TRACING_SERVICE_NAME" .serviceName) }}
{{- include "weir.variable" (list "TRACING_SERVICE_NAMESPACE" .serviceNamespace) }}
{{- if .traces.enabled }}
- name: TRACING_ENABLED
  value: "true"
{{- if not (kindIs "invalid" .traces.samplingRate) }}
- name: TRACING_SAMPLING_RATE
  value: {{ .traces.samplingRate | quote }}
{{- end }}
{{- if .traces.values }}
- name: TRACING_DESCRIPTOR_VALUES
  value: "true"
{{- end }}
{{- end }}
{{- if .metrics.enabled }}
- name: OTEL_METRICS_EXPORTER
  value: otlp
{{- include "weir.variable" (list "OTEL_METRIC_EXPORT_INTERVAL" .metrics.interval) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
