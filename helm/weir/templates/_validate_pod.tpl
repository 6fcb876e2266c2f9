{{/* What would keep pods from being found, reached, or left to end in peace. */}}
{{- define "weir.validateLabels" -}}
{{- $selecting := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- $all := concat $selecting (list "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- $monitoring := .Values.monitoring -}}
{{- range $name, $labels := dict "commonLabels" .Values.commonLabels "service.labels" .Values.service.labels "monitoring.labels" $monitoring.labels "monitoring.dashboards.labels" $monitoring.dashboards.labels "monitoring.dataSource.labels" $monitoring.dataSource.labels -}}
{{- range $all -}}
{{- if hasKey ($labels | default dict) . -}}
{{- fail (printf "%s sets %s, which the chart sets: leave it out. nameOverride and the release's name are what changes the chart's labels." $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $labels := dict "podLabels" .Values.podLabels "history.downsample.podLabels" (.Values.history.downsample | default dict).podLabels "historyServer.podLabels" .Values.historyServer.podLabels -}}
{{- range $selecting -}}
{{- if hasKey ($labels | default dict) . -}}
{{- fail (printf "%s sets %s, by which Services find weir's pods: leave it out. nameOverride and the release's name are what changes it." $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.validatePorts" -}}
{{- if regexMatch "^(localhost|127[.].*|::1)$" (toString .Values.admin.host) -}}
{{- fail (printf "admin.host %s is reached only from within the pod, but the kubelet's probes and Prometheus come from outside: leave admin.host empty. networkPolicy.operators says who may reach the port, and admin.token who may change counters." .Values.admin.host) -}}
{{- end -}}
{{- if eq .Values.mode "service" -}}
{{- if regexMatch "^(localhost|127[.].*|::1)$" (toString .Values.grpc.host) -}}
{{- fail (printf "grpc.host %s is reached only from within the pod, but Envoy comes from outside: leave grpc.host empty, or set mode: sidecar to put weir beside Envoy." .Values.grpc.host) -}}
{{- end -}}
{{- $ports := dict -}}
{{- $listeners := dict "grpc.port" .Values.grpc.port "http.port" .Values.http.port "admin.port" .Values.admin.port -}}
{{- if .Values.statistics.prometheus.enabled -}}
{{- $_ := set $listeners "statistics.prometheus.port" .Values.statistics.prometheus.port -}}
{{- end -}}
{{- range $name, $port := $listeners -}}
{{- with get $ports (toString $port) -}}
{{- fail (printf "%s and %s are both %d, but each is a listener of its own: set them apart; by default grpc.port is 8081, http.port 8080, admin.port 6070 and statistics.prometheus.port 9090." . $name (int $port)) -}}
{{- end -}}
{{- $_ := set $ports (toString $port) $name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.validateGrace" -}}
{{- $grace := .Values.terminationGracePeriodSeconds -}}
{{- $hook := get (.Values.lifecycle | default dict) "preStop" -}}
{{- if kindIs "invalid" $grace -}}
{{- if and (eq .Values.mode "service") $hook (not $hook.sleep) -}}
{{- fail "lifecycle.preStop takes as long as it takes, off the time that the pod has for its end: set terminationGracePeriodSeconds to how long it may be and as long as weir's drain (drain.delaySeconds, drain.timeoutSeconds and 5)." -}}
{{- end -}}
{{- else if lt (int $grace) (include "weir.endSeconds" . | int) -}}
{{- fail (printf "terminationGracePeriodSeconds %d would cut off calls and hits on their way to the history: its end may take weir %s s (lifecycle.preStop.sleep, drain.delaySeconds, drain.timeoutSeconds and 5). Set it to that or more, or null." (int $grace) (include "weir.endSeconds" .)) -}}
{{- end -}}
{{- if and (eq .Values.mode "sidecar") (not (kindIs "invalid" $grace)) -}}
{{- fail (printf "terminationGracePeriodSeconds is for mode service: in sidecar mode the pod is the workload's. Give that %s s or more." (include "weir.endSeconds" .)) -}}
{{- end -}}
{{- end -}}

{{/* Kubernetes refuses a container that has a variable twice, and says neither which value is meant nor what to do. */}}
{{- define "weir.validateEnv" -}}
{{- $set := dict -}}
{{- range concat (include "weir.serveEnv" . | fromYamlArray) (include "weir.storeEnv" . | fromYamlArray) -}}
{{- if hasKey $set .name -}}
{{- fail (printf "extraEnv sets %s, which the chart sets, or sets it twice: leave it out there, and set the chart's own value for it." .name) -}}
{{- end -}}
{{- $_ := set $set .name true -}}
{{- end -}}
{{- end -}}

{{- define "weir.validateTLS" -}}
{{- $tls := .Values.grpc.tls -}}
{{- $certificate := $tls.certificate | default dict -}}
{{- if and (not $tls.enabled) (or $tls.existingSecret $certificate.enabled $tls.clientCAKey $tls.clientName) -}}
{{- fail "grpc.tls says with which files gRPC is served by TLS, but TLS is off: set grpc.tls.enabled, or leave them out." -}}
{{- end -}}
{{- if $tls.enabled -}}
{{- if not (or $tls.existingSecret $certificate.enabled) -}}
{{- fail "TLS on the gRPC port needs a certificate: name its Secret in grpc.tls.existingSecret, or set grpc.tls.certificate.enabled, so that cert-manager makes one." -}}
{{- end -}}
{{- if and $certificate.enabled (not $certificate.issuer.name) -}}
{{- fail "grpc.tls.certificate asks cert-manager for a certificate, which must know whose: set grpc.tls.certificate.issuer.name." -}}
{{- end -}}
{{- if and $tls.clientName (not $tls.clientCAKey) -}}
{{- fail "grpc.tls.clientName is checked in certificates of clients, and none are asked for: set grpc.tls.clientCAKey." -}}
{{- end -}}
{{- if eq .Values.mode "sidecar" -}}
{{- fail "grpc.tls is for mode service: in sidecar mode Envoy asks weir on a Unix socket that only they share." -}}
{{- end -}}
{{- if .Values.probes.grpc -}}
{{- fail "probes.grpc is by plaintext, the kubelet knows no other, but grpc.tls is on: leave out probes.grpc." -}}
{{- end -}}
{{- if or .Values.istio.gateway.enabled .Values.istio.sidecar.enabled .Values.istio.destinationRule.enabled .Values.istio.peerAuthentication.enabled .Values.envoyGateway.patchPolicy.enabled -}}
{{- fail "What istio and envoyGateway make asks weir in plaintext, which a mesh encrypts by itself, but grpc.tls is on: leave out one of them." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.validateXDS" -}}
{{- $xds := .Values.xds -}}
{{- if $xds.server -}}
{{- if or .Values.descriptors .Values.existingConfigMaps .Values.check.enabled -}}
{{- fail "xds.server gives the limits in place of descriptor files, which would not be read: leave out descriptors, existingConfigMaps and check, or xds." -}}
{{- end -}}
{{- if ne (empty $xds.tls.certKey) (empty $xds.tls.keyKey) -}}
{{- fail "xds.tls.certKey and xds.tls.keyKey belong together: set both, or none." -}}
{{- end -}}
{{- if and (not $xds.tls.enabled) (or $xds.tls.existingSecret $xds.tls.serverName) -}}
{{- fail "xds.tls says with which files the xDS server is reached by TLS, but TLS is off: set xds.tls.enabled, or leave them out." -}}
{{- end -}}
{{- else if or $xds.node $xds.metadata $xds.headers $xds.tls.enabled $xds.tls.existingSecret -}}
{{- fail "xds says how a server that gives limits is reached, and not where it is: set xds.server, or leave xds out." -}}
{{- end -}}
{{- end -}}
