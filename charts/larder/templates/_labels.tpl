{{/* All labels of the chart come from this file. These three find the operator's pods, and never change. */}}
{{- define "larder.selector" -}}
app.kubernetes.io/name: larder
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "larder.labels" -}}
{{ include "larder.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of an object of the release's namespace: include "larder.metadata" (list . NAME) */}}
{{- define "larder.metadata" -}}
{{- $ := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $.Release.Namespace }}
labels:
  {{- include "larder.labels" $ | nindent 2 }}
{{- end }}

{{/* The same of an object without a namespace. */}}
{{- define "larder.clusterMetadata" -}}
{{- $ := index . 0 -}}
name: {{ index . 1 }}
labels:
  {{- include "larder.labels" $ | nindent 2 }}
{{- end }}

{{/* The operator's account, as a binding names it. */}}
{{- define "larder.subjects" -}}
- kind: ServiceAccount
  name: {{ include "larder.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
