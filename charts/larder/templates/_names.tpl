{{/* All names of the chart come from this file. This is the beginning of each name. A name
of a Service has no dots, begins with a letter and has at most 63 characters. Here the limit is 50, so that "-operator" still
fits. A longer name keeps its beginning and gets a hash of the whole name, so two names with one beginning differ. */}}
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

{{/* global.imageRegistry, without a slash at its end; empty: none. Helm gives `global` to every chart inside another. */}}
{{- define "larder.imageRegistry" -}}
{{- $registry := (.Values.global | default dict).imageRegistry | default "" | trimSuffix "/" -}}
{{- if and $registry (not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" $registry)) -}}
{{- fail (printf "global.imageRegistry: %q is no registry such as mirror.example:5000 or mirror.example/team" $registry) -}}
{{- end -}}
{{- $registry -}}
{{- end }}

{{/* image.repository. A global.imageRegistry replaces the host in its first part, or precedes a name without a host. */}}
{{- define "larder.repository" -}}
{{- $repository := .Values.image.repository -}}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" $repository) -}}
{{- fail (printf "image.repository: %q is no repository such as registry.example/team/larder; the tag goes into image.tag, sha256:... into image.digest" $repository) -}}
{{- end -}}
{{- with include "larder.imageRegistry" . -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- $repository -}}
{{- end }}

{{- define "larder.image" -}}
{{- if .Values.image.digest -}}
{{ include "larder.repository" . }}@{{ .Values.image.digest }}
{{- else -}}
{{ include "larder.repository" . }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Namespaces whose pods the webhook never sees, as JSON. The release's own is one of them, but for "default", where people try things. */}}
{{- define "larder.excludedNamespaces" -}}
{{- $own := eq .Release.Namespace "default" | ternary (list) (list .Release.Namespace) -}}
{{- concat .Values.webhook.excludedNamespaces $own | uniq | toJson -}}
{{- end }}
