{{/*
The name of all objects, at most 40 characters, so that every suffix fits where 52 are allowed. A longer one is cut. A
release's name may hold dots and a Service's may not, so a dot becomes a dash. Either way a hash of the whole is added, so
that two releases never collide.
*/}}
{{- define "weir.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- if or (gt (len $full) 40) (contains "." $full) -}}
{{- printf "%s-%s" (replace "." "-" $full | trunc 31 | trimSuffix "-") (sha256sum $full | trunc 8) -}}
{{- else -}}
{{- $full -}}
{{- end -}}
{{- end -}}

{{- define "weir.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/*
The name and namespace of an object that may be elsewhere than the release: dict "root" . "namespace" "suffix". There a
release of the same name in another namespace could have one too, so it ends with a dot and the release's namespace. Neither
that nor weir.fullname holds a dot, so no two can be the same.
*/}}
{{- define "weir.nameInNamespace" -}}
{{- $home := (include "weir.namespace" .root) -}}
{{- $namespace := default $home .namespace -}}
name: {{ include "weir.fullname" .root }}{{ .suffix }}{{ if ne $namespace $home }}.{{ $home }}{{ end }}
namespace: {{ $namespace }}
{{- end -}}

{{/* Labels that tell a release's pods. */}}
{{- define "weir.releaseLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels that tell a component's pods: list root "server". */}}
{{- define "weir.componentLabels" -}}
{{ include "weir.releaseLabels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "weir.selectorLabels" -}}
{{- include "weir.componentLabels" (list . "server") -}}
{{- end -}}

{{/* Labels of an object of a component: dict "root" . "component" "server" "more" labels of its own, which go before
commonLabels. weir.validateLabels keeps both from naming one of the chart's. */}}
{{- define "weir.labels" -}}
{{- $root := .root -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "weir.componentLabels" (list $root (.component | default "server")) }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with merge dict (.more | default dict) ($root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels and annotations of an object: those of weir.labels, and "annotations" of its own, which go before commonAnnotations. */}}
{{- define "weir.metadata" -}}
labels:
  {{- include "weir.labels" . | nindent 2 }}
{{- with merge dict (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The Secret with the certificate of the gRPC port. */}}
{{- define "weir.grpcSecret" -}}
{{- default (printf "%s-grpc-tls" (include "weir.fullname" .)) .Values.grpc.tls.existingSecret -}}
{{- end -}}

{{/* Labels of the pods that weir stands in. */}}
{{- define "weir.podSelector" -}}
{{- if eq .Values.mode "sidecar" -}}
{{- toYaml .Values.sidecar.selector -}}
{{- else -}}
{{- include "weir.selectorLabels" . -}}
{{- end -}}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/*
The Secret with the token that changes of counters must bring, empty if nobody may change any. Only what Helm installs has one
of the chart's: a tool that renders without a cluster, where even a list is empty, would make another token each time.
*/}}
{{- define "weir.adminTokenSecret" -}}
{{- $token := .Values.admin.token -}}
{{- if $token.existingSecret -}}
{{- $token.existingSecret -}}
{{- else if ne (toString $token.create) "false" -}}
{{- $name := printf "%s-admin-token" (include "weir.fullname" .) -}}
{{- $namespace := include "weir.namespace" . -}}
{{- if or (lookup "v1" "Secret" $namespace $name) (lookup "v1" "Secret" $namespace "") -}}
{{- $name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- $image := .Values.image -}}
{{- $repository := $image.repository -}}
{{- with (.Values.global | default dict).imageRegistry -}}
{{- $repository = regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "" | printf "%s/%s" . -}}
{{- end -}}
{{- $released := empty $image.tag | ternary (index .Chart.Annotations "weir/image-digest") "" -}}
{{- with default $released $image.digest -}}
{{- printf "%s@%s" $repository . -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The Service's full name, as a mesh knows it. */}}
{{- define "weir.host" -}}
{{- printf "%s.%s.svc.%s" (include "weir.fullname" .) (include "weir.namespace" .) .Values.mesh.clusterDomain -}}
{{- end -}}

{{- define "weir.backend" -}}
{{- if .Values.backend -}}
{{- .Values.backend -}}
{{- else if or .Values.redis.addresses .Values.redis.urlSecret.name -}}
redis
{{- else if or .Values.memcached.addresses .Values.memcached.srv -}}
memcache
{{- else -}}
memory
{{- end -}}
{{- end -}}

{{- define "weir.replicas" -}}
{{- if not (kindIs "invalid" .Values.replicas) -}}
{{- .Values.replicas -}}
{{- else -}}
{{- eq (include "weir.backend" .) "memory" | ternary 1 2 -}}
{{- end -}}
{{- end -}}

{{/*
How many pods there are at least, empty where nobody says. With an autoscaler it is the least that it keeps: divided by more
than there are, a limit would refuse callers who are within it, and that is worse than what a share too large lets pass.
*/}}
{{- define "weir.leastReplicas" -}}
{{- if .Values.autoscaling.enabled -}}
{{- .Values.autoscaling.minReplicas | int | max 1 -}}
{{- else if or (and (eq .Values.mode "service") (eq .Values.kind "Deployment")) (not (kindIs "invalid" .Values.replicas)) -}}
{{- include "weir.replicas" . | int | max 1 -}}
{{- end -}}
{{- end -}}

{{/* What weir does where the values leave it to the program that it is started as. */}}
{{- define "weir.algorithm" -}}
{{- default (eq .Values.program "ratelimit" | ternary "fixed_window" "sliding_window") .Values.algorithm -}}
{{- end -}}

{{- define "weir.onFailure" -}}
{{- $store := eq (include "weir.backend" .) "memcache" | ternary .Values.memcached .Values.redis -}}
{{- default (eq .Values.program "ratelimit" | ternary "error" "allow") $store.onFailure -}}
{{- end -}}

{{/*
"yes" if weir keeps a history. Who replaces envoyproxy/ratelimit has not said that anything else may be written into the Redis
of its counters. Beside memcached each pod would have a file of its own, with what it alone has seen.
*/}}
{{- define "weir.keepsHistory" -}}
{{- if kindIs "bool" .Values.history.enabled -}}
{{- if .Values.history.enabled -}}yes{{- end -}}
{{- else if get .Values.history.redis "urlSecret" -}}
yes
{{- else if eq (include "weir.backend" .) "memcache" -}}
{{- else if or (ne .Values.program "ratelimit") (eq (include "weir.backend" .) "memory") -}}
yes
{{- end -}}
{{- end -}}

{{/* "yes" if it is in a Redis, so that another process can read it. */}}
{{- define "weir.historyInRedis" -}}
{{- if and (include "weir.keepsHistory" .) (or (eq (include "weir.backend" .) "redis") (get .Values.history.redis "urlSecret")) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" if weir has files of its own: counters in memory, a history beside memcached. */}}
{{- define "weir.hasData" -}}
{{- $backend := include "weir.backend" . -}}
{{- if or (eq $backend "memory") (and (eq $backend "memcache") (include "weir.keepsHistory" .) (not (include "weir.historyInRedis" .))) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" if more than one pod is to be expected. */}}
{{- define "weir.severalPods" -}}
{{- if or .Values.autoscaling.enabled (eq .Values.kind "DaemonSet") (gt (int (include "weir.replicas" .)) 1) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" if the chart makes the ConfigMap of descriptors. */}}
{{- define "weir.ownDescriptors" -}}
{{- if and (not .Values.xds.server) (or .Values.descriptors (not .Values.existingConfigMaps)) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" if it makes all descriptors that weir has, and none configures mesh.domain, so that Envoy's requests meet no limit. */}}
{{- define "weir.domainIsMissing" -}}
{{- $missing := and .Values.descriptors (not .Values.existingConfigMaps) -}}
{{- range .Values.descriptors -}}
{{- $file := kindIs "string" . | ternary (fromYaml (toString .)) . -}}
{{- if or (hasKey $file "Error") (eq (toString $file.domain) $.Values.mesh.domain) -}}
{{- $missing = false -}}
{{- end -}}
{{- end -}}
{{- if $missing -}}yes{{- end -}}
{{- end -}}

{{/* "yes" if the CronJob moves the history. */}}
{{- define "weir.cronJob" -}}
{{- if and (include "weir.keepsHistory" .) (eq .Values.history.downsample.by "cronjob") (eq (include "weir.backend" .) "redis") -}}yes{{- end -}}
{{- end -}}
