{{/* weir serve, as a container of the Deployment or beside another Envoy. */}}
{{- define "weir.container" -}}
name: weir
image: {{ include "weir.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if eq .Values.program "ratelimit" }}
command: [/bin/ratelimit]
{{- else }}
command: [/bin/weir]
args: [serve{{ if not .Values.xds.server }}, --config, /etc/weir/descriptors{{ end }}]
{{- end }}
{{- if and (eq .Values.mode "sidecar") .Values.sidecar.native }}
restartPolicy: Always
{{- end }}
ports:
  {{- if ne .Values.mode "sidecar" }}
  - name: grpc
    containerPort: {{ .Values.grpc.port }}
    protocol: TCP
  - name: http
    containerPort: {{ .Values.http.port }}
    protocol: TCP
  {{- end }}
  - name: {{ eq .Values.mode "sidecar" | ternary "weir-admin" "admin" }}
    containerPort: {{ .Values.admin.port }}
    protocol: TCP
  {{- if .Values.statistics.prometheus.enabled }}
  - name: {{ eq .Values.mode "sidecar" | ternary "weir-statistics" "statistics" }}
    containerPort: {{ .Values.statistics.prometheus.port }}
    protocol: TCP
  {{- end }}
env:
  {{- include "weir.serveEnv" . | nindent 2 }}
  {{- include "weir.storeEnv" . | nindent 2 }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- tpl (toYaml .) $ | nindent 2 }}
{{- end }}
{{- include "weir.probes" . }}
{{- with .Values.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  {{- include "weir.mounts" (include "weir.ownVolumes" . | fromYamlArray) | nindent 2 }}
  {{- if eq .Values.mode "sidecar" }}
  - name: {{ .Values.sidecar.volume }}
    mountPath: {{ dir .Values.sidecar.socket }}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- tpl (toYaml .) $ | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Readiness asks whether it wants traffic, liveness only whether it runs: an outage of Redis restarts nothing. */}}
{{- define "weir.probes" -}}
{{- $port := eq .Values.mode "sidecar" | ternary "weir-admin" "admin" }}
startupProbe:
  httpGet:
    path: /readyz
    port: {{ $port }}
  {{- toYaml .Values.probes.startup | nindent 2 }}
readinessProbe:
  {{- if and .Values.probes.grpc (ne .Values.mode "sidecar") }}
  grpc:
    port: {{ .Values.grpc.port }}
  {{- else }}
  httpGet:
    path: /readyz
    port: {{ $port }}
  {{- end }}
  {{- toYaml .Values.probes.readiness | nindent 2 }}
livenessProbe:
  httpGet:
    path: /livez
    port: {{ $port }}
  {{- toYaml .Values.probes.liveness | nindent 2 }}
{{- end -}}

{{/*
Seconds that weir may take from SIGTERM to its end: its drain, 5 for the last hits on their way to the history and for saving
counters, and before SIGTERM the hook's sleep, which Kubernetes takes off the same time.
*/}}
{{- define "weir.endSeconds" -}}
{{- add .Values.drain.delaySeconds .Values.drain.timeoutSeconds 5 (dig "preStop" "sleep" "seconds" 0 (.Values.lifecycle | default dict)) -}}
{{- end -}}

{{/* What all pods of the chart share. */}}
{{- define "weir.podSpec" -}}
serviceAccountName: {{ include "weir.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not (kindIs "invalid" .Values.hostUsers) }}
hostUsers: {{ .Values.hostUsers }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
