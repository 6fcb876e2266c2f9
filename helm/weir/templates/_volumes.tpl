{{/* Volumes that weir's commands need to reach Redis or memcached. */}}
{{- define "weir.storeVolumes" -}}
{{- if and (include "weir.keepsHistory" .) .Values.history.redis.urlSecret }}
- name: weir-history-url
  secret:
    secretName: {{ .Values.history.redis.urlSecret }}
{{- end }}
{{- if eq (include "weir.backend" .) "redis" }}
{{- include "weir.redisVolumes" (dict "root" . "redis" .Values.redis "files" "redis") }}
{{- if .Values.redis.tls.existingSecret }}
- name: weir-redis-tls
  secret:
    secretName: {{ .Values.redis.tls.existingSecret }}
{{- end }}
{{- if .Values.redis.perSecond.enabled }}
{{- include "weir.redisVolumes" (dict "root" . "redis" .Values.redis.perSecond "files" "redis-persecond") }}
{{- end }}
{{- else if and (eq (include "weir.backend" .) "memcache") .Values.memcached.tls.existingSecret }}
- name: weir-memcached-tls
  secret:
    secretName: {{ .Values.memcached.tls.existingSecret }}
{{- end -}}
{{- end -}}

{{/* The descriptor files of the chart's own ConfigMap. */}}
{{- define "weir.descriptors" -}}
{{- range $name, $rules := .Values.descriptors }}
{{ $name | quote }}: |2
  {{- kindIs "string" $rules | ternary $rules (toYaml $rules) | nindent 2 }}
{{- else -}}
shop.yaml: |
  {{- .Files.Get "files/shop.yaml" | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The volume of the descriptor files, if there are any: a folder, never single files, which Kubernetes would not renew.
dict "root" . "own" the chart's own ConfigMap.
*/}}
{{- define "weir.descriptorVolume" -}}
{{- if not .root.Values.xds.server }}
- name: weir-descriptors
  projected:
    sources:
      {{- if include "weir.ownDescriptors" .root }}
      - configMap:
          name: {{ default (printf "%s-descriptors" (include "weir.fullname" .root)) .own }}
      {{- end }}
      {{- range .root.Values.existingConfigMaps }}
      - configMap:
          name: {{ . }}
      {{- end }}
{{- end }}
{{- end -}}

{{/* The arguments that name that folder, as JSON of a list. */}}
{{- define "weir.descriptorArgs" -}}
{{- empty .Values.xds.server | ternary (list "--config" "/etc/weir/descriptors") list | toJson -}}
{{- end -}}

{{/* The volumes of weir serve. */}}
{{- define "weir.serveVolumes" -}}
{{- if and .Values.xds.server .Values.xds.tls.enabled .Values.xds.tls.existingSecret }}
- name: weir-xds-tls
  secret:
    secretName: {{ .Values.xds.tls.existingSecret }}
{{- end }}
{{- include "weir.descriptorVolume" (dict "root" .) }}
{{- if .Values.grpc.tls.enabled }}
- name: weir-grpc-tls
  secret:
    secretName: {{ include "weir.grpcSecret" . }}
{{- end }}
{{- if and .Values.statistics.prometheus.enabled .Values.statistics.prometheus.mapper.existingConfigMap }}
- name: weir-mapper
  configMap:
    name: {{ .Values.statistics.prometheus.mapper.existingConfigMap }}
{{- end }}
{{- include "weir.storeVolumes" . }}
{{- if include "weir.hasData" . }}
- name: weir-data
  {{- if .Values.memory.persistence.enabled }}
  persistentVolumeClaim:
    claimName: {{ default (printf "%s-data" (include "weir.fullname" .)) .Values.memory.persistence.existingClaim }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- include "weir.tokenVolumes" . }}
{{- end -}}

{{/* The volumes of the admin port's tokens, if there are any. */}}
{{- define "weir.tokenVolumes" -}}
{{- with include "weir.adminTokenSecret" . }}
- name: weir-admin
  secret:
    secretName: {{ . }}
{{- end }}
{{- if .Values.admin.readToken.existingSecret }}
- name: weir-admin-read
  secret:
    secretName: {{ .Values.admin.readToken.existingSecret }}
{{- end }}
{{- end -}}

{{/* The mounts of these volumes: weir-NAME becomes /etc/weir/NAME, only the data is elsewhere, and writable. */}}
{{- define "weir.mounts" -}}
{{- range . }}
- name: {{ .name }}
  {{- if eq .name "weir-data" }}
  mountPath: /var/lib/weir
  {{- else }}
  mountPath: /etc/weir/{{ trimPrefix "weir-" .name }}
  readOnly: true
  {{- end }}
{{- end }}
{{- end -}}

{{/*
What a container of weir.storeContainer sees of extraVolumes: dict "volumes" "mounts", as YAML. What only other containers mount
is left out, and so are mounts of volumes that only the pod of weir serve has, by the chart or beside an Envoy.
*/}}
{{- define "weir.storeExtras" -}}
{{- $mounts := tpl (toYaml .Values.extraVolumeMounts) . | fromYamlArray -}}
{{- $extras := dict "volumes" list "mounts" list -}}
{{- range $volume := tpl (toYaml .Values.extraVolumes) . | fromYamlArray -}}
{{- $mounted := false -}}
{{- range $mounts -}}
{{- if eq .name $volume.name -}}
{{- $mounted = true -}}
{{- $_ := set $extras "mounts" (append $extras.mounts .) -}}
{{- end -}}
{{- end -}}
{{- if $mounted -}}
{{- $_ := set $extras "volumes" (append $extras.volumes $volume) -}}
{{- end -}}
{{- end -}}
{{- toYaml $extras -}}
{{- end -}}
