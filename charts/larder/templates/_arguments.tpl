{{/* The operator's command line. */}}
{{- define "larder.arguments" -}}
- --image={{ include "larder.image" . }}
- --leader-elect=true
- --lease-name={{ include "larder.operator" . }}
- --metrics-address=0.0.0.0:8080
- --health-address=0.0.0.0:8081
- --webhook-address=0.0.0.0:9443
- --webhook-service={{ include "larder.webhook" . }}
- --webhook-configuration={{ include "larder.fullname" . }}
{{- if .Values.webhook.certManager.enabled }}
- --certificate-directory=/etc/larder/webhook
{{- else }}
- --certificate-secret={{ include "larder.certificateSecret" . }}
{{- end }}
- --log-level={{ .Values.logLevel }}
{{- end }}
