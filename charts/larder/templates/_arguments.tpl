{{/* The operator's command line. */}}
{{- define "larder.arguments" -}}
- --image={{ include "larder.image" . }}
{{- if .Values.podImagePullSecrets }}
{{- $names := list }}
{{- range .Values.podImagePullSecrets }}{{ $names = append $names .name }}{{ end }}
- --image-pull-secrets={{ join "," $names }}
{{- end }}
- --leader-elect=true
- --lease-name={{ include "larder.operator" . }}
- --metrics-address=:8080
- --health-address=:8081
- --webhook-address=:9443
- --webhook-service={{ include "larder.webhook" . }}
- --webhook-configuration={{ include "larder.fullname" . }}
{{- if .Values.webhook.certManager.enabled }}
- --certificate-directory=/etc/larder/webhook
{{- else }}
- --certificate-secret={{ include "larder.certificateSecret" . }}
{{- end }}
- --log-level={{ .Values.logLevel }}
{{- end }}
