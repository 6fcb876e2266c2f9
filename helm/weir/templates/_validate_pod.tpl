{{/* What would keep pods from being found, reached, or left to end in peace. */}}
{{- define "weir.validateLabels" -}}
{{- $selecting := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- $all := concat $selecting (list "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- $monitoring := .Values.monitoring -}}
{{- range $name, $labels := dict "commonLabels" .Values.commonLabels "service.labels" .Values.service.labels "monitoring.labels" $monitoring.labels "monitoring.dashboards.labels" $monitoring.dashboards.labels -}}
{{- range $all -}}
{{- if hasKey ($labels | default dict) . -}}
{{- fail (printf "%s sets %s, which the chart sets: leave it out. nameOverride and the release's name are what changes the chart's labels." $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $labels := dict "podLabels" .Values.podLabels "history.downsample.podLabels" (.Values.history.downsample | default dict).podLabels -}}
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
{{- range $name, $port := dict "grpc.port" .Values.grpc.port "http.port" .Values.http.port "admin.port" .Values.admin.port -}}
{{- with get $ports (toString $port) -}}
{{- fail (printf "%s and %s are both %d, but each is a listener of its own: set them apart; by default grpc.port is 8081, http.port 8080 and admin.port 6070." . $name (int $port)) -}}
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
