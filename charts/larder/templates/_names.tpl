{{/* What all names begin with. Names of Services have no dots, begin with a letter and have at most 63 characters: here at most 50, so
that "-operator" still fits. A longer one keeps its beginning and gets a hash of the whole: two of the same beginning stay apart. */}}
{{- define "larder.fullname" -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- $own := contains "larder" $release | ternary $release (printf "%s-larder" $release) -}}
{{- $name := .Values.fullnameOverride | default (regexMatch "^[a-z]" $own | ternary $own (printf "larder-%s" $release)) -}}
{{- if gt (len $name) 50 -}}
{{- printf "%s-%s" ($name | trunc 41 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end }}

{{- define "larder.operator" -}}
{{ include "larder.fullname" . }}-operator
{{- end }}

{{- define "larder.webhook" -}}
{{ include "larder.fullname" . }}-webhook
{{- end }}

{{- define "larder.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "larder.operator" .) }}
{{- else -}}
{{ required "serviceAccount.name: which account? serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{/* The Secret with the webhook's certificate. */}}
{{- define "larder.certificateSecret" -}}
{{ include "larder.webhook" . }}-tls
{{- end }}

{{- define "larder.image" -}}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" .Values.image.repository) -}}
{{- fail (printf "image.repository: %q is no repository such as registry.example/team/larder; the tag goes into image.tag, sha256:... into image.digest" .Values.image.repository) -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Namespaces whose pods the webhook never sees, as JSON. The release's own is one of them, but for "default", where people try things. */}}
{{- define "larder.excludedNamespaces" -}}
{{- $own := eq .Release.Namespace "default" | ternary (list) (list .Release.Namespace) -}}
{{- concat .Values.webhook.excludedNamespaces $own | uniq | toJson -}}
{{- end }}
