{{/*
How one Redis is reached: dict "redis" values "prefix" "REDIS" "files" the folder of its files below /etc/weir.
A ring's list is a file, which weir follows; so is whatever is secret, which may change then.
*/}}
{{- define "weir.redisEnv" -}}
{{- $redis := .redis -}}
{{- $prefix := .prefix }}
- name: {{ $prefix }}_TYPE
  value: {{ $redis.type }}
{{- if $redis.urlSecret.name }}
- name: {{ $prefix }}_URL_FILE
  value: /etc/weir/{{ .files }}-url/{{ $redis.urlSecret.key }}
{{- else if eq $redis.type "ring" }}
- name: {{ $prefix }}_URL_FILE
  value: /etc/weir/{{ .files }}-url/url
{{- else }}
- name: {{ $prefix }}_URL
  value: {{ include "weir.redisURL" $redis | quote }}
{{- end }}
{{- if $redis.auth.existingSecret }}
- name: {{ $prefix }}_AUTH_FILE
  value: /etc/weir/{{ .files }}-auth/{{ $redis.auth.key }}
{{- end }}
{{- if $redis.sentinelAuth.existingSecret }}
{{ include "weir.secretVariable" (list (printf "%s_SENTINEL_AUTH" $prefix) $redis.sentinelAuth.existingSecret $redis.sentinelAuth.key) }}
{{- end }}
{{- if $redis.tls.enabled }}
- name: {{ $prefix }}_TLS
  value: "true"
{{- end }}
{{- include "weir.variable" (list (printf "%s_TLS_SERVER_NAME" $prefix) $redis.tls.serverName) }}
{{- include "weir.variable" (list (printf "%s_POOL_SIZE" $prefix) $redis.poolSize) }}
{{- include "weir.variable" (list (printf "%s_TIMEOUT" $prefix) $redis.timeout) }}
{{- end -}}

{{- define "weir.redisURL" -}}
{{- $nodes := join "," .addresses -}}
{{- eq .type "sentinel" | ternary (printf "%s,%s" .masterName $nodes) $nodes -}}
{{- end -}}

{{/* What the first Redis has alone. */}}
{{- define "weir.mainRedisEnv" -}}
{{- include "weir.storeTLSEnv" (dict "tls" .tls "prefix" "REDIS_TLS" "files" "redis-tls") }}
{{- if eq .type "ring" }}
- name: RING_ON_NODE_LOSS
  value: {{ .onNodeLoss }}
{{- end }}
{{- if not (kindIs "invalid" .functions) }}
- name: REDIS_FUNCTIONS
  value: {{ .functions | quote }}
{{- end }}
{{- if .unreadyWhileAway }}
- name: REDIS_HEALTH_CHECK_ACTIVE_CONNECTION
  value: "true"
{{- end }}
{{- include "weir.variable" (list "REDIS_STARTUP_INITIAL_INTERVAL" .startup.initialInterval) }}
{{- include "weir.variable" (list "REDIS_STARTUP_MAX_INTERVAL" .startup.maxInterval) }}
{{- include "weir.variable" (list "REDIS_STARTUP_MAX_ELAPSED_TIME" .startup.maxElapsedTime) }}
{{- if .perSecond.enabled }}
- name: REDIS_PERSECOND
  value: "true"
{{- include "weir.redisEnv" (dict "redis" .perSecond "prefix" "REDIS_PERSECOND" "files" "redis-persecond") }}
{{- end }}
{{- end -}}

{{/* The volumes of its files: dict "root" . "redis" values "files" as above. */}}
{{- define "weir.redisVolumes" -}}
{{- $root := .root -}}
{{- $redis := .redis -}}
{{- if $redis.urlSecret.name }}
- name: weir-{{ .files }}-url
  secret:
    secretName: {{ $redis.urlSecret.name }}
{{- else if eq $redis.type "ring" }}
- name: weir-{{ .files }}-url
  configMap:
    name: {{ include "weir.fullname" $root }}-{{ .files }}
{{- end }}
{{- if $redis.auth.existingSecret }}
- name: weir-{{ .files }}-auth
  secret:
    secretName: {{ $redis.auth.existingSecret }}
{{- end }}
{{- end -}}
