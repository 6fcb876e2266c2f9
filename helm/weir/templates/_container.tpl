{{/* weir serve, as a container of the Deployment or beside another Envoy. */}}
{{- define "weir.container" -}}
name: weir
image: {{ include "weir.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if eq .Values.program "ratelimit" }}
command: [/bin/ratelimit]
{{- else }}
command: [/bin/weir]
args: {{ concat (list "serve") (include "weir.descriptorArgs" . | fromJsonArray) | toJson }}
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
{{- $sidecar := eq .Values.mode "sidecar" }}
{{- include "weir.probes" (dict "root" . "port" ($sidecar | ternary "weir-admin" "admin") "grpc" (and .Values.probes.grpc (not $sidecar)) "started" "/readyz") }}
{{- with .Values.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  {{- include "weir.mounts" (include "weir.serveVolumes" . | fromYamlArray) | nindent 2 }}
  {{- if eq .Values.mode "sidecar" }}
  - name: {{ .Values.sidecar.volume }}
    mountPath: {{ dir .Values.sidecar.socket }}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- tpl (toYaml .) $ | nindent 2 }}
  {{- end }}
{{- end -}}

{{/*
Readiness asks whether it wants traffic, liveness only whether it runs: an outage of Redis restarts nothing. dict "root" . "port"
its name "grpc" whether readiness is asked by gRPC "started" the path that tells that it has started.
*/}}
{{- define "weir.probes" -}}
{{- $probes := .root.Values.probes }}
startupProbe:
  httpGet:
    path: {{ .started }}
    port: {{ .port }}
  {{- toYaml $probes.startup | nindent 2 }}
readinessProbe:
  {{- if .grpc }}
  grpc:
    port: {{ .root.Values.grpc.port }}
  {{- else }}
  httpGet:
    path: /readyz
    port: {{ .port }}
  {{- end }}
  {{- toYaml $probes.readiness | nindent 2 }}
livenessProbe:
  httpGet:
    path: /livez
    port: {{ .port }}
  {{- toYaml $probes.liveness | nindent 2 }}
{{- end -}}

{{/*
A command of weir that reads or moves the history in Redis, as a container: dict "root" . "name" "args" "env" variables besides
those of the store "resources" "volumes" besides those of the store, as YAML of a list. Its pod has the volumes weir.storePodVolumes.
*/}}
{{- define "weir.storeContainer" -}}
{{- $root := .root -}}
{{- $volumes := concat (include "weir.storeVolumes" $root | fromYamlArray) (.volumes | default "[]" | fromYamlArray) -}}
{{- $mounts := (include "weir.storeExtras" $root | fromYaml).mounts -}}
name: {{ .name }}
image: {{ include "weir.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
command: [/bin/weir]
args: {{ toJson .args }}
env:
  {{- with .env }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- include "weir.storeEnv" $root | nindent 2 }}
{{- with $root.Values.extraEnvFrom }}
envFrom:
  {{- tpl (toYaml .) $root | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  {{- toYaml $root.Values.securityContext | nindent 2 }}
{{- if or $volumes $mounts }}
volumeMounts:
  {{- include "weir.mounts" $volumes | nindent 2 }}
  {{- with $mounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The volumes of such a container's pod, as YAML of a list: dict "root" . "volumes" that it was given. */}}
{{- define "weir.storePodVolumes" -}}
{{- $extras := include "weir.storeExtras" .root | fromYaml -}}
{{- concat (include "weir.storeVolumes" .root | fromYamlArray) (.volumes | default "[]" | fromYamlArray) $extras.volumes | toYaml -}}
{{- end -}}

{{/*
Seconds that weir may take from SIGTERM to its end: its drain, 5 for the last hits on their way to the history and for saving
counters, and before SIGTERM the hook's sleep, which Kubernetes takes off the same time.
*/}}
{{- define "weir.endSeconds" -}}
{{- add .Values.drain.delaySeconds .Values.drain.timeoutSeconds 5 (dig "preStop" "sleep" "seconds" 0 (.Values.lifecycle | default dict)) -}}
{{- end -}}

{{/*
What all pods of the chart share: dict "root" . "serviceAccount" another one "tolerations" in place of those of all pods,
unless they are null.
*/}}
{{- define "weir.podSpec" -}}
serviceAccountName: {{ .serviceAccount | default (include "weir.serviceAccountName" .root) }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- $secrets := list }}
{{- range concat ((.root.Values.global | default dict).imagePullSecrets | default list) (.root.Values.imagePullSecrets | default list) }}
{{- $secrets = append $secrets (kindIs "string" . | ternary . (toYaml . | fromYaml).name) }}
{{- end }}
{{- with uniq $secrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- if not (kindIs "invalid" .root.Values.hostUsers) }}
hostUsers: {{ .root.Values.hostUsers }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with .root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with kindIs "invalid" .tolerations | ternary .root.Values.tolerations .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
