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
- name: DEBUG_HOST
  value: {{ .Values.admin.host | quote }}
- name: DEBUG_PORT
  value: {{ .Values.admin.port | quote }}
{{- if .Values.admin.profiles }}
- name: DEBUG_PPROF
  value: "true"
{{- end }}
{{- if .Values.admin.token.existingSecret }}
- name: ADMIN_TOKEN_FILE
  value: /etc/weir/admin/{{ .Values.admin.token.key }}
{{- end }}
{{- include "weir.variable" (list "GRPC_MAX_CONNECTION_AGE" .Values.grpc.maxConnectionAge) }}
{{- include "weir.variable" (list "GRPC_MAX_CONNECTION_AGE_GRACE" .Values.grpc.maxConnectionAgeGrace) }}
{{- with .Values.answer }}
{{- range $name, $on := dict "LIMIT_RESPONSE_HEADERS_ENABLED" .limitHeaders.enabled "RETRY_AFTER_HEADER_ENABLED" .retryAfter "RESPONSE_DYNAMIC_METADATA" .dynamicMetadata "SHADOW_MODE" .shadowMode "QUOTA_MODE" .quotaMode "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" .spareOthers }}
{{- if $on }}
- name: {{ $name }}
  value: "true"
{{- end }}
{{- end }}
{{- include "weir.variable" (list "LIMIT_LIMIT_HEADER" .limitHeaders.limit) }}
{{- include "weir.variable" (list "LIMIT_REMAINING_HEADER" .limitHeaders.remaining) }}
{{- include "weir.variable" (list "LIMIT_RESET_HEADER" .limitHeaders.reset) }}
{{- include "weir.variable" (list "NEAR_LIMIT_RATIO" .nearLimitRatio) }}
{{- end }}
{{- if .Values.mergeDomains }}
- name: MERGE_DOMAIN_CONFIG
  value: "true"
{{- end }}
{{- include "weir.variable" (list "CACHE_KEY_PREFIX" .Values.keyPrefix) }}
{{- if eq (include "weir.backend" .) "redis" }}
- name: ON_BACKEND_FAILURE
  value: {{ .Values.redis.onFailure }}
{{- include "weir.variable" (list "REPLICAS" (include "weir.leastReplicas" .)) }}
{{- end }}
- name: DRAIN_DELAY
  value: {{ printf "%vs" .Values.drain.delaySeconds }}
- name: DRAIN_TIMEOUT
  value: {{ printf "%vs" .Values.drain.timeoutSeconds }}
{{- if .Values.history.enabled }}
{{- if eq (include "weir.backend" .) "redis" }}
- name: HISTORY_DOWNSAMPLE
  value: {{ eq .Values.history.downsample.by "serve" | quote }}
{{- else if .Values.history.redis.urlSecret }}
- name: HISTORY_DOWNSAMPLE
  value: "true"
{{- end }}
{{- end }}
{{- end -}}

{{/* What every command of weir needs that counts or reads what was counted. */}}
{{- define "weir.storeEnv" -}}
- name: BACKEND_TYPE
  value: {{ include "weir.backend" . }}
- name: ALGORITHM
  value: {{ .Values.algorithm }}
{{- if eq (include "weir.backend" .) "redis" }}
{{- include "weir.redisEnv" (dict "redis" .Values.redis "prefix" "REDIS" "files" "redis") }}
{{- include "weir.redisOwnEnv" .Values.redis }}
{{- else }}
- name: DATA_DIR
  value: /var/lib/weir
{{- include "weir.variable" (list "MEMORY_MAX_KEYS" .Values.memory.maxKeys) }}
{{- include "weir.variable" (list "DATA_SAVE_INTERVAL" .Values.memory.saveInterval) }}
{{- end }}
{{- include "weir.historyEnv" .Values.history }}
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
  value: {{ .enabled | quote }}
{{- if .enabled }}
{{- include "weir.variable" (list "HISTORY_FLUSH_INTERVAL" .flushInterval) }}
{{- include "weir.variable" (list "HISTORY_RETENTION" .retention) }}
{{- include "weir.variable" (list "HISTORY_MAX_POINTS" .maxPoints) }}
{{- include "weir.variable" (list "HISTORY_KEEP_MINUTES" .keep.minutes) }}
{{- include "weir.variable" (list "HISTORY_KEEP_5_MINUTES" .keep.fiveMinutes) }}
{{- include "weir.variable" (list "HISTORY_KEEP_HOURS" .keep.hours) }}
{{- if .redis.urlSecret }}
{{ include "weir.secretVariable" (list "REDIS_HISTORY_URL" .redis.urlSecret .redis.urlKey) }}
{{- end }}
{{- end }}
{{- end -}}
