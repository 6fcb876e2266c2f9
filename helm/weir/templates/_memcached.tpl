{{/* How memcached is reached. */}}
{{- define "weir.memcachedEnv" -}}
{{- include "weir.variable" (list "MEMCACHE_HOST_PORT" (join "," .addresses)) }}
{{- include "weir.variable" (list "MEMCACHE_SRV" .srv) }}
{{- include "weir.variable" (list "MEMCACHE_SRV_REFRESH" .srvRefresh) }}
{{- if .tls.enabled }}
- name: MEMCACHE_TLS
  value: "true"
{{- end }}
{{- include "weir.storeTLSEnv" (dict "tls" .tls "prefix" "MEMCACHE_TLS" "files" "memcached-tls") }}
{{- include "weir.variable" (list "MEMCACHE_TLS_SERVER_NAME" .tls.serverName) }}
{{- include "weir.variable" (list "MEMCACHE_MAX_IDLE_CONNS" .connections) }}
{{- include "weir.variable" (list "MEMCACHE_TIMEOUT" .timeout) }}
{{- end -}}

{{- define "weir.validateMemcached" -}}
{{- if and (not .addresses) (not .srv) -}}
{{- fail "Counting in memcached needs to know where it is: set memcached.addresses or memcached.srv." -}}
{{- end -}}
{{- if and .addresses .srv -}}
{{- fail "memcached.addresses and memcached.srv both say where memcached is: leave out one of them." -}}
{{- end -}}
{{- if and .srvRefresh (not .srv) -}}
{{- fail "memcached.srvRefresh is for memcached.srv, which is not set: leave out one of them." -}}
{{- end -}}
{{- with .tls -}}
{{- if ne (empty .certKey) (empty .keyKey) -}}
{{- fail "memcached.tls.certKey and memcached.tls.keyKey belong together: set both, or none." -}}
{{- end -}}
{{- if and .existingSecret (not .enabled) -}}
{{- fail "memcached.tls.existingSecret is set, but TLS is off: set memcached.tls.enabled." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is told of the memcached that counts: list root "the labels of what is scraped". */}}
{{- define "weir.memcachedAlerts" -}}
{{- $root := index . 0 }}
{{- $scraped := index . 1 }}
{{- $rules := $root.Values.monitoring.rules }}
- alert: WeirMemcachedDown
  expr: max(weir_memcached_servers{ {{- $scraped -}} ,state!="up"}) > 0
  for: 1m
  annotations:
    summary: {{ "{{ $value }} of the servers of memcached do not count." | quote }}
    description: >-
      Requests whose counts they hold are decided by the policy {{ include "weir.onFailure" $root }} (memcached.onFailure), unless
      their rule says otherwise; all others as before. weir's log names the servers, and weir finds them again by itself.
  {{- include "weir.alertEnd" (list $rules "critical" "WeirMemcachedDown") | nindent 2 }}
- alert: WeirMemcachedEvicts
  expr: max(increase(weir_memcached_evictions_total{ {{- $scraped -}} }[15m])) > 0
  for: 15m
  annotations:
    summary: {{ "memcached threw out {{ $value | humanize }} values in 15 minutes that were alive." | quote }}
    description: Keys whose counts are among them begin at zero, so that more may pass than the limits say.
  {{- include "weir.alertEnd" (list $rules "warning" "WeirMemcachedEvicts") | nindent 2 }}
{{- end -}}
