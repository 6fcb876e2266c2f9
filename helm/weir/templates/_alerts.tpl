{{/*
What is told of the Redis that counts: list root "the labels of what is scraped". Shares are of rates over 5 m that last for 5 m,
so that a failover of seconds wakes nobody; WeirRedisShardDown is quicker, since a server that is gone does not come back by itself.
*/}}
{{- define "weir.redisAlerts" -}}
{{- $root := index . 0 }}
{{- $scraped := index . 1 }}
{{- $rules := $root.Values.monitoring.rules }}
{{- $policy := include "weir.onFailure" $root }}
{{- $then := get (dict "allow" "pass uncounted" "deny" "are denied" "local" "are counted in each pod by a share of the limit" "error" "get no verdict, so that Envoy's failure_mode_deny decides") $policy }}
- alert: WeirRedisShardDown
  expr: count by (redis, server) (weir_redis_breaker_open{ {{- $scraped -}} } == 1)
  for: 30s
  annotations:
    summary: {{ "Redis {{ $labels.server }} ({{ $labels.redis }}) does not answer {{ $value }} of weir's pods." | quote }}
    description: >-
      Requests whose counts it holds {{ $then }} (redis.onFailure: {{ $policy }}), unless their rule says otherwise; all others are
      decided as before. Bring it back; weir finds it by itself within seconds: restart no pod of weir.
  {{- include "weir.alertEnd" (list $rules "critical" "WeirRedisShardDown") | nindent 2 }}
- alert: WeirDegraded
  expr: >-
    sum by (policy, reason) (rate(weir_degraded_total{ {{- $scraped -}} ,policy!="error",reason!="refused"}[5m]))
    > {{ $rules.errorRatio }} * scalar(sum(rate(weir_requests_total{ {{- $scraped -}} }[5m])))
  for: 5m
  annotations:
    summary: {{ "{{ $value | humanize }} decisions a second are made without Redis, by the policy {{ $labels.policy }} (reason: {{ $labels.reason }})." | quote }}
    description: >-
      By allow they pass uncounted, by deny they are denied, by local they are counted in each pod by a share of the limit. Reason
      down: a server is gone, and WeirRedisShardDown names it. Reason late: WeirRedisSlow names the server. Reason busy: more checks
      wait than it answers in time.
  {{- include "weir.alertEnd" (list $rules "critical" "WeirDegraded") | nindent 2 }}
- alert: WeirRedisTakesNoWrites
  expr: >-
    sum by (policy) (rate(weir_degraded_total{ {{- $scraped -}} ,reason="refused"}[5m]))
    > {{ $rules.errorRatio }} * scalar(sum(rate(weir_requests_total{ {{- $scraped -}} }[5m])))
  for: 5m
  annotations:
    summary: {{ "Redis refuses {{ $value | humanize }} checks a second; the policy {{ $labels.policy }} decides." | quote }}
    description: >-
      It answers, but does not count: it is full (OOM), cannot save (MISCONF), lacks replicas (NOREPLICAS), or denies weir's user a
      right. weir's log names the server and the error.
  {{- include "weir.alertEnd" (list $rules "critical" "WeirRedisTakesNoWrites") | nindent 2 }}
- alert: WeirRedisSlow
  expr: >-
    histogram_quantile(0.99, sum by (le, redis, server) (rate(weir_redis_answer_seconds_bucket{ {{- $scraped -}} }[5m])))
    > {{ $rules.latencySeconds }}
  for: 10m
  annotations:
    summary: {{ "1 % of the answers of Redis {{ $labels.server }} ({{ $labels.redis }}) take longer than {{ $value | humanizeDuration }}." | quote }}
    description: >-
      Checks that are not answered before Envoy's timeout are decided by the failure policy. Look at the server's CPU, its slow log,
      its forks, and at the network between.
  {{- include "weir.alertEnd" (list $rules "warning" "WeirRedisSlow") | nindent 2 }}
- alert: WeirRedisForeignLibrary
  expr: count by (redis, server) (weir_redis_foreign_library{ {{- $scraped -}} } == 1)
  for: 1m
  annotations:
    summary: {{ "In Redis {{ $labels.server }} ({{ $labels.redis }}) somebody else has replaced weir's library of functions." | quote }}
    description: >-
      Limits hold: weir counts by scripts, which cost Redis more. Before it noticed, the other library could read and change all that
      weir's user may. weir's log names the library.
  {{- include "weir.alertEnd" (list $rules "warning" "WeirRedisForeignLibrary") | nindent 2 }}
{{- /* One loss is over within the hour. Above 0 for two hours, there is one after the other. */}}
- alert: WeirOverAdmission
  expr: max by (redis) (increase(weir_redis_counts_lost_total{ {{- $scraped -}} }[1h])) > 0
  for: 2h
  annotations:
    summary: {{ "For two hours no hour was without a loss of counts: {{ $value | humanize }} in the last one, each of which lets a limit pass once more." | quote }}
    description: >-
      Keys begin at zero when a Redis is away and comes back empty, fails over or is flushed, or a ring's node is lost.
  {{- include "weir.alertEnd" (list $rules "warning" "WeirOverAdmission") | nindent 2 }}
- alert: WeirRefundsFail
  expr: >-
    sum(rate(weir_refunds_on_deny_total{ {{- $scraped -}} ,result="failed"}[15m]))
    > {{ $rules.errorRatio }} * sum(rate(weir_refunds_on_deny_total{ {{- $scraped -}} }[15m]))
  for: 15m
  annotations:
    summary: {{ "{{ $value | humanize }} refunds a second fail." | quote }}
    description: >-
      What a denied request was charged by its other descriptors stays charged until their windows end, so that callers are denied
      sooner than refund_on_deny promises. Redis is away or slow: WeirRedisShardDown and WeirRedisSlow name the server.
  {{- include "weir.alertEnd" (list $rules "warning" "WeirRefundsFail") | nindent 2 }}
{{- end -}}
