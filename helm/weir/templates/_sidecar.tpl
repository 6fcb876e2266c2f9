{{/*
For a chart of your own that has this one as a dependency, with mode: sidecar. In your pod, beside Envoy:

    containers:
      - {{- include "weir.sidecar.container" .Subcharts.weir | nindent 8 }}
    volumes:
      {{- include "weir.sidecar.volumes" .Subcharts.weir | nindent 6 }}

Envoy mounts the volume sidecar.volume as well, and asks the socket sidecar.socket. With sidecar.native the container
belongs to initContainers.
*/}}
{{- define "weir.sidecar.container" -}}
{{- include "weir.sidecar.only" . -}}
{{- include "weir.container" . -}}
{{- end -}}

{{- define "weir.sidecar.volumes" -}}
{{- include "weir.sidecar.only" . -}}
{{- include "weir.serveVolumes" . }}
- name: {{ .Values.sidecar.volume }}
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ tpl (toYaml .) $ }}
{{- end }}
{{- end -}}

{{- define "weir.sidecar.only" -}}
{{- if ne .Values.mode "sidecar" -}}
{{- fail "weir.sidecar.container and weir.sidecar.volumes are for sidecar mode: set mode: sidecar in the values of weir." -}}
{{- end -}}
{{- end -}}
