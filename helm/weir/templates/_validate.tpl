{{/* What no schema can say, as a sentence that says what to do. */}}
{{- define "weir.validate" -}}
{{- $backend := include "weir.backend" . -}}
{{- include "weir.validateNames" . -}}
{{- if and (eq .Values.mode "service") (not (regexMatch "^[a-z]" (include "weir.fullname" .))) -}}
{{- fail (printf "The name %q begins with a digit, which a Service may not: set fullnameOverride." (include "weir.fullname" .)) -}}
{{- end -}}
{{- if and (eq $backend "memory") (eq .Values.mode "service") (include "weir.severalPods" .) -}}
{{- fail "In memory each replica counts for itself, so several would let several times the limit pass: set redis.addresses or memcached.addresses, or replicas: 1, autoscaling.enabled: false and kind: Deployment." -}}
{{- end -}}
{{- if and (eq $backend "memory") (or .Values.redis.addresses .Values.redis.urlSecret.name) -}}
{{- fail "backend is memory, but redis says where Redis is: leave out one of them." -}}
{{- end -}}
{{- if and (ne $backend "memcache") (or .Values.memcached.addresses .Values.memcached.srv) -}}
{{- fail (printf "memcached says where memcached is, but weir would count in %s: set backend: memcache, or leave out memcached." $backend) -}}
{{- end -}}
{{- if eq $backend "memcache" -}}
{{- include "weir.validateMemcached" .Values.memcached -}}
{{- end -}}
{{- if and (eq $backend "memory") (or .Values.keyFormat .Values.calendarMonths) -}}
{{- fail "keyFormat and calendarMonths are about keys in Redis and memcached, but weir would count in memory: leave them out, or set redis.addresses." -}}
{{- end -}}
{{- if eq $backend "memory" -}}
{{- with .Values.redis -}}
{{- if or (ne .type "single") .auth.existingSecret .sentinelAuth.existingSecret .tls.enabled .perSecond.enabled .masterName -}}
{{- fail "redis says how Redis is reached, and not where it is, so weir would count in memory: set redis.addresses or redis.urlSecret.name, or leave redis out." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $backend "redis" -}}
{{- include "weir.validateRedis" (list "redis" .Values.redis) -}}
{{- with .Values.redis.perSecond -}}
{{- if .enabled -}}
{{- include "weir.validateRedis" (list "redis.perSecond" .) -}}
{{- else if or .addresses (.urlSecret | default dict).name -}}
{{- fail "redis.perSecond says where a second Redis is, but redis.perSecond.enabled is false, so nothing would be counted there: enable it, or leave out where it is." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.memory.persistence.existingClaim (not .Values.memory.persistence.enabled) -}}
{{- fail "memory.persistence.existingClaim names a volume, but memory.persistence.enabled is false, so counters would end with the pod: enable it, or leave out the claim." -}}
{{- end -}}
{{- if and .Values.memory.persistence.enabled (ne $backend "memory") -}}
{{- fail (printf "memory.persistence.enabled is for counters in memory, but they are in %s: leave out one of them." (eq $backend "redis" | ternary "Redis" "memcached")) -}}
{{- end -}}
{{- if and .Values.memory.persistence.enabled (eq .Values.mode "sidecar") -}}
{{- fail "memory.persistence.enabled cannot be in sidecar mode, as one volume cannot serve every pod: use Redis to keep counters." -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}
{{- fail "With monitoring.serviceMonitor and monitoring.podMonitor each pod would be scraped twice: enable one of them." -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.enabled (include "weir.severalPods" .) -}}
{{- if not (or (kindIs "invalid" $budget.minAvailable) (kindIs "string" $budget.minAvailable)) -}}
{{- $least := .Values.autoscaling.enabled | ternary .Values.autoscaling.minReplicas (include "weir.replicas" . | int) -}}
{{- if ge (int $budget.minAvailable) (int $least) -}}
{{- fail (printf "podDisruptionBudget.minAvailable %d of %d replicas would let no node be drained: set it lower." (int $budget.minAvailable) (int $least)) -}}
{{- end -}}
{{- end -}}
{{- if eq (toString $budget.minAvailable) "100%" -}}
{{- fail "podDisruptionBudget.minAvailable 100% would let no node be drained: set it lower." -}}
{{- end -}}
{{- if and (kindIs "invalid" $budget.minAvailable) (regexMatch "^0+%?$" (toString $budget.maxUnavailable)) -}}
{{- fail (printf "podDisruptionBudget.maxUnavailable %v would let no node be drained: set it to 1 or more." $budget.maxUnavailable) -}}
{{- end -}}
{{- end -}}
{{- include "weir.validateNeverMade" . -}}
{{- include "weir.validateScale" . -}}
{{- include "weir.validateMode" . -}}
{{- include "weir.validatePage" . -}}
{{- include "weir.validateNetworkPolicy" . -}}
{{- include "weir.validateLabels" . -}}
{{- include "weir.validatePorts" . -}}
{{- include "weir.validateGrace" . -}}
{{- include "weir.validateTLS" . -}}
{{- include "weir.validateXDS" . -}}
{{- include "weir.validateEnv" . -}}
{{- include "weir.validateDescriptors" . -}}
{{- include "weir.validateHistory" . -}}
{{- end -}}

{{/* Values as other charts name them, which the schema lets through for the sake of these sentences. */}}
{{- define "weir.validateNames" -}}
{{- $names := dict "replicaCount" "replicas" "onFailure" "redis.onFailure or memcached.onFailure" "env" "extraEnv" "extraEnvVars" "extraEnv"
  "config" "descriptors" "serviceMonitor" "monitoring.serviceMonitor" -}}
{{- range $wrong, $right := $names -}}
{{- if hasKey $.Values $wrong -}}
{{- fail (printf "This chart has no value %s: use %s." $wrong $right) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What would read a history that is not there, or that it cannot reach. */}}
{{- define "weir.validateHistory" -}}
{{- $server := .Values.historyServer.enabled -}}
{{- if and $server (not (include "weir.keepsHistory" .)) -}}
{{- fail "historyServer would have nothing to read, as no history is kept: set history.enabled, or leave out historyServer." -}}
{{- end -}}
{{- if and $server (not (include "weir.historyInRedis" .)) -}}
{{- fail "historyServer reads a history in Redis, but this one is in a file, which belongs to its weir: set redis.addresses or history.redis.urlSecret, or leave out historyServer; weir itself answers queries." -}}
{{- end -}}
{{- if .Values.monitoring.dataSource.enabled -}}
{{- if not (include "weir.keepsHistory" .) -}}
{{- fail "monitoring.dataSource is for the history, and none is kept: set history.enabled, or leave out monitoring.dataSource. What Prometheus scrapes is in a data source of Prometheus's." -}}
{{- end -}}
{{- if and (not $server) (not .Values.history.query.enabled) -}}
{{- fail "monitoring.dataSource would ask what nobody answers, as history.query.enabled is false: enable it, or historyServer." -}}
{{- end -}}
{{- if and (not $server) (eq .Values.mode "sidecar") -}}
{{- fail "monitoring.dataSource needs a Service to ask, and in sidecar mode there is none: set historyServer.enabled." -}}
{{- end -}}
{{- if and .Values.monitoring.dataSource.name (not (regexMatch "(?i)weir" .Values.monitoring.dataSource.name)) -}}
{{- fail (printf "monitoring.dataSource.name %q has no weir in it, by which the dashboard of the history finds its data sources: add it." .Values.monitoring.dataSource.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Files that are given as YAML are judged by the schema; of those given as text Helm can read only so much. */}}
{{- define "weir.validateDescriptors" -}}
{{- range $name, $rules := .Values.descriptors -}}
{{- if kindIs "string" $rules -}}
{{- $file := fromYaml $rules -}}
{{- if hasKey $file "Error" -}}
{{- fail (printf "descriptors.%s is no YAML of a descriptor file: %s. weir check names the line." $name $file.Error) -}}
{{- else if not $file.domain -}}
{{- fail (printf "descriptors.%s has no domain, by which Envoy asks for it: begin it with a line as domain: %s." $name $.Values.mesh.domain) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What was chosen for an object that this mode, kind or type never makes. */}}
{{- define "weir.validateNeverMade" -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.enabled (or (not (kindIs "invalid" $budget.minAvailable)) (not (has (toString $budget.maxUnavailable) (list "1" "<nil>")))) -}}
{{- if eq .Values.mode "sidecar" -}}
{{- fail "podDisruptionBudget is for mode service: in sidecar mode the pods are the workload's, and so is their budget." -}}
{{- else if eq .Values.kind "DaemonSet" -}}
{{- fail "podDisruptionBudget is for kind Deployment: draining a node leaves a DaemonSet's pods alone, so none would be made; leave it out." -}}
{{- end -}}
{{- end -}}
{{- with .Values.service -}}
{{- if and (ne $.Values.mode "service") (or (ne .type "ClusterIP") .loadBalancerClass .loadBalancerSourceRanges .externalTrafficPolicy) -}}
{{- fail "service is for mode service: in sidecar mode there is no Service, leave it out." -}}
{{- end -}}
{{- if and (ne .type "LoadBalancer") (or .loadBalancerClass .loadBalancerSourceRanges) -}}
{{- fail (printf "service.loadBalancerClass and service.loadBalancerSourceRanges are for a load balancer, but service.type is %s: set it to LoadBalancer, or leave them out; networkPolicy.clients says who may reach weir in any case." .type) -}}
{{- end -}}
{{- if and (eq .type "ClusterIP") .externalTrafficPolicy -}}
{{- fail "service.externalTrafficPolicy is for what comes from outside the cluster, but service.type is ClusterIP: set it to LoadBalancer or NodePort, or leave it out." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What was chosen for an object that is switched off, by the defaults that values.yaml has: a line each. Files of values
that share a base switch objects off and leave the rest, so these are no errors. */}}
{{- define "weir.unused" -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and (eq .Values.mode "service") (eq .Values.kind "Deployment") $budget.enabled (not (include "weir.severalPods" .)) (not (kindIs "invalid" $budget.minAvailable)) }}
podDisruptionBudget has no effect on one pod
{{- end }}
{{- with .Values.ingress }}{{ if and (not .enabled) (or .hosts .className .tls) }}
ingress.hosts, className and tls have no effect while ingress.enabled is false
{{- end }}{{ end }}
{{- with .Values.httpRoute }}{{ if and (not .enabled) (or .hostnames .parentRefs) }}
httpRoute.hostnames and parentRefs have no effect while httpRoute.enabled is false
{{- end }}{{ end }}
{{- $scale := .Values.autoscaling }}
{{- if not $scale.enabled }}
{{- range $name, $default := dict "minReplicas" "2" "maxReplicas" "10" "targetCPU" "70" "targetMemory" "" "metrics" "[]" "behavior" "map[]" }}
{{- $chosen := get $scale $name }}
{{- if and (not (kindIs "invalid" $chosen)) (not (has (toString $chosen) (list "" $default))) }}
autoscaling.{{ $name }} has no effect while autoscaling.enabled is false
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "weir.validateScale" -}}
{{- $scale := .Values.autoscaling -}}
{{- if $scale.enabled -}}
{{- if eq .Values.kind "DaemonSet" -}}
{{- fail "autoscaling is for kind Deployment: a DaemonSet has a pod on each node." -}}
{{- end -}}
{{- if gt (int $scale.minReplicas) (int $scale.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas %d is above autoscaling.maxReplicas %d." (int $scale.minReplicas) (int $scale.maxReplicas)) -}}
{{- end -}}
{{- if and (kindIs "invalid" $scale.targetCPU) (kindIs "invalid" $scale.targetMemory) (not $scale.metrics) -}}
{{- fail "autoscaling.enabled needs something to aim at: set targetCPU, targetMemory or metrics." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.validateRedis" -}}
{{- $name := index . 0 -}}
{{- $redis := index . 1 -}}
{{- if and (not $redis.addresses) (not $redis.urlSecret.name) -}}
{{- fail (printf "Counting in Redis needs to know where it is: set %s.addresses or %s.urlSecret.name." $name $name) -}}
{{- end -}}
{{- if contains "@" (join "," $redis.addresses) -}}
{{- fail (printf "A password in %s.addresses would stand in plain sight: put it into a Secret, %s.auth.existingSecret, or the whole URL into %s.urlSecret." $name $name $name) -}}
{{- end -}}
{{- if and $redis.addresses $redis.urlSecret.name -}}
{{- fail (printf "%s.addresses and %s.urlSecret.name both say where Redis is: leave out one of them." $name $name) -}}
{{- end -}}
{{- if and $redis.addresses (eq $redis.type "single") (gt (len $redis.addresses) 1) -}}
{{- fail (printf "%s.type is single, but %s.addresses names %d servers: set the type to sentinel, cluster or ring." $name $name (len $redis.addresses)) -}}
{{- end -}}
{{- if and $redis.addresses (eq $redis.type "sentinel") (not $redis.masterName) -}}
{{- fail (printf "Sentinels are asked for a primary by its name: set %s.masterName." $name) -}}
{{- end -}}
{{- if and $redis.masterName (ne $redis.type "sentinel") -}}
{{- fail (printf "%s.masterName is for sentinels, but %s.type is %s: leave out one of them." $name $name $redis.type) -}}
{{- end -}}
{{- if and $redis.sentinelAuth.existingSecret (ne $redis.type "sentinel") -}}
{{- fail (printf "%s.sentinelAuth is for sentinels, but %s.type is %s: leave out one of them." $name $name $redis.type) -}}
{{- end -}}
{{- with $redis.tls.existingSecret -}}
{{- if ne (empty $redis.tls.certKey) (empty $redis.tls.keyKey) -}}
{{- fail (printf "%s.tls.certKey and %s.tls.keyKey belong together: set both, or none." $name $name) -}}
{{- end -}}
{{- if not $redis.tls.enabled -}}
{{- fail (printf "%s.tls.existingSecret is set, but TLS is off: set %s.tls.enabled." $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.validatePage" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress leads to the page by a host name, which weir's admin port must know: set ingress.hosts." -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not (and .Values.httpRoute.hostnames .Values.httpRoute.parentRefs)) -}}
{{- fail "httpRoute leads from a Gateway to the page by a host name, which weir's admin port must know: set httpRoute.parentRefs and httpRoute.hostnames." -}}
{{- end -}}
{{- end -}}

{{/* Ports that would be open to all, or closed to Prometheus, against what is believed of them. */}}
{{- define "weir.validateNetworkPolicy" -}}
{{- $policy := .Values.networkPolicy -}}
{{- if and (not $policy.enabled) (or $policy.clients $policy.operators $policy.viewers) -}}
{{- fail "networkPolicy says who may reach weir, but networkPolicy.enabled is false, so everyone may: enable it, or leave out clients, operators and viewers." -}}
{{- end -}}
{{- if and $policy.enabled $policy.viewers (not $policy.operators) .Values.historyServer.enabled (or .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled) -}}
{{- fail "networkPolicy.viewers closes the ports of weir's metrics to all but operators, and beside historyServer viewers reach that alone, so Prometheus could not scrape weir: name it in networkPolicy.operators." -}}
{{- end -}}
{{- end -}}

{{/* What makes no sense where weir has no Service of its own. */}}
{{- define "weir.validateMode" -}}
{{- if eq .Values.mode "sidecar" -}}
{{- if eq .Values.kind "DaemonSet" -}}
{{- fail "kind is for mode service: in sidecar mode the pods are the workload's." -}}
{{- end -}}
{{- if .Values.autoscaling.enabled -}}
{{- fail "autoscaling is for mode service: in sidecar mode the workload decides how many there are." -}}
{{- end -}}
{{- if .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor is for mode service: in sidecar mode there is no Service, use monitoring.podMonitor." -}}
{{- end -}}
{{- if or .Values.istio.gateway.enabled .Values.istio.destinationRule.enabled .Values.istio.peerAuthentication.enabled .Values.envoyGateway.patchPolicy.enabled -}}
{{- fail "istio.gateway, istio.destinationRule, istio.peerAuthentication and envoyGateway are for mode service: in sidecar mode there is no Service; use istio.sidecar." -}}
{{- end -}}
{{- if or .Values.ingress.enabled .Values.httpRoute.enabled -}}
{{- fail "ingress and httpRoute are for mode service: in sidecar mode there is no Service that leads to the page." -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
{{- fail "networkPolicy is for mode service: in sidecar mode the pods are the workload's, and so is what may reach them." -}}
{{- end -}}
{{- if and (or .Values.monitoring.podMonitor.enabled .Values.istio.sidecar.enabled) (not .Values.sidecar.selector) -}}
{{- fail "monitoring.podMonitor and istio.sidecar must know which pods weir stands in: set sidecar.selector." -}}
{{- end -}}
{{- end -}}
{{- end -}}
