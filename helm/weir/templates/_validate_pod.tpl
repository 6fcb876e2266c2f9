{{/* What would keep pods from being found, reached, or left to end in peace. */}}
{{- define "weir.validateLabels" -}}
{{- $selecting := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- $all := concat $selecting (list "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- $monitoring := .Values.monitoring -}}
{{- range $name, $labels := dict "commonLabels" .Values.commonLabels "service.labels" .Values.service.labels "monitoring.labels" $monitoring.labels "monitoring.dashboards.labels" $monitoring.dashboards.labels -}}
{{- range $all -}}
{{- if hasKey $labels . -}}
{{- fail (printf "%s sets %s, which the chart sets: leave it out. nameOverride and the release's name are what changes the chart's labels." $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $labels := dict "podLabels" .Values.podLabels "history.downsample.podLabels" .Values.history.downsample.podLabels -}}
{{- range $selecting -}}
{{- if hasKey $labels . -}}
{{- fail (printf "%s sets %s, by which Services find weir's pods: leave it out. nameOverride and the release's name are what changes it." $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
