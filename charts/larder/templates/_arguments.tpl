{{/* The operator's command line, at this one place. */}}
{{- define "larder.arguments" -}}
- --image={{ include "larder.image" . }}
{{- with .Values.mooncake.image }}
- --mooncake-image={{ . }}
{{- end }}
{{- with .Values.infinistore.image }}
- --infinistore-image={{ . }}
{{- end }}
{{- with include "larder.imageRegistry" . }}
- --image-registry={{ . }}
{{- end }}
{{- if .Values.podImagePullSecrets }}
{{- $names := list }}
{{- range .Values.podImagePullSecrets }}{{ $names = append $names .name }}{{ end }}
- --image-pull-secrets={{ join "," $names }}
{{- end }}
- --leader-elect=true
- --lease-name={{ include "larder.operator" . }}
- --metrics-address=:{{ .Values.ports.metrics }}
- --health-address=:{{ .Values.ports.health }}
- --webhook-address=:{{ .Values.ports.webhook }}
- --webhook-service={{ include "larder.webhook" . }}
- --webhook-configuration={{ include "larder.fullname" . }}
{{- if .Values.webhook.certManager.enabled }}
- --certificate-directory=/etc/larder/webhook
{{- else }}
- --certificate-secret={{ include "larder.certificateSecret" . }}
{{- end }}
- --log-level={{ .Values.logLevel }}
{{- end }}
