{{/*
A key whose values have all been commented out is null, and Helm then takes its defaults away. Lists, labels and what weir has a
default of its own for may be empty; these may not, those above before those below. What stands in a section that has
`enabled: false` is not used, and not looked at.
*/}}
{{- define "weir.mayNotBeEmpty" -}}
mode kind program image image.repository image.pullPolicy check check.enabled answer answer.limitHeaders answer.requestHeaders
xds xds.tls grpc grpc.port grpc.tls grpc.tls.certKey grpc.tls.keyKey grpc.tls.certificate grpc.tls.certificate.issuer http http.port http.json admin admin.port admin.token admin.token.key admin.readToken
memory memory.persistence memory.persistence.size
redis redis.type redis.urlSecret redis.auth redis.sentinelAuth redis.tls redis.onNodeLoss redis.startup
redis.perSecond redis.perSecond.type redis.perSecond.urlSecret redis.perSecond.auth redis.perSecond.sentinelAuth redis.perSecond.tls
memcached memcached.tls
history history.keep history.redis history.query history.downsample history.downsample.by history.downsample.schedule
historyServer historyServer.replicas
statistics statistics.prometheus statistics.prometheus.port statistics.prometheus.path statistics.prometheus.mapper
statistics.prometheus.mapper.key statistics.statsd statistics.dogstatsd
telemetry telemetry.protocol telemetry.headers telemetry.headers.key telemetry.traces telemetry.metrics
drain drain.delaySeconds drain.timeoutSeconds log log.level log.format
serviceAccount serviceAccount.create probes probes.startup probes.readiness probes.liveness
ingress httpRoute service service.type service.headless service.headless.enabled autoscaling podDisruptionBudget networkPolicy
monitoring monitoring.serviceMonitor monitoring.podMonitor monitoring.rules monitoring.dashboards
monitoring.dashboards.page monitoring.dataSource
mesh mesh.clusterDomain mesh.domain mesh.timeout mesh.failureModeDeny mesh.rateLimits
istio istio.gateway istio.gateway.namespace istio.sidecar istio.destinationRule istio.peerAuthentication
istio.peerAuthentication.enabled envoyGateway envoyGateway.patchPolicy
sidecar sidecar.socket sidecar.volume tests tests.descriptor
{{- end -}}

{{- define "weir.validateNothingIsEmpty" -}}
{{- range $path := regexSplit "\\s+" (include "weir.mayNotBeEmpty" . | trim) -1 -}}
{{- $at := $.Values -}}
{{- $used := true -}}
{{- range splitList "." $path -}}
{{- if $used -}}
{{- $used = or (eq . "enabled") (ne (get $at "enabled" | toString) "false") -}}
{{- $at = get $at . -}}
{{- end -}}
{{- end -}}
{{- if and $used (or (kindIs "invalid" $at) (eq (toString $at) "")) -}}
{{- fail (printf "%s is empty, which takes its default away: give it a value, or leave out its name to have the default." $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
