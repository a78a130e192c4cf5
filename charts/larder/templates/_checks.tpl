{{/* Rules for the values that a schema cannot express; empty without a fault. */}}
{{- define "larder.checks" -}}
{{- if eq (toString .Values.enabled) "false" -}}
{{- fail "enabled: false is for `condition: larder.enabled` in the Chart.yaml of a chart around this one, which then leaves this one out; this chart does not read the value" -}}
{{- end -}}
{{- if lt (list (int .Values.ports.webhook) (int .Values.ports.metrics) (int .Values.ports.health) | uniq | len) 3 -}}
{{- fail "ports: webhook, metrics and health need a port each" -}}
{{- end -}}
{{- end }}
