{{/* A definition of files/crds with the annotation and labels of this release:
include "larder.crd" (list . FILE). "keep": pools and backends outlive the release. */}}
{{- define "larder.crd" -}}
{{- $ := index . 0 -}}
{{- $text := required (printf "files/crds/%s is not in the chart" (index . 1)) ($.Files.Get (printf "files/crds/%s" (index . 1))) -}}
{{- $metadata := printf "\nmetadata:\n  annotations:\n    helm.sh/resource-policy: keep\n  labels:%s\n" (include "larder.labels" $ | nindent 4) -}}
{{- regexReplaceAllLiteral "\nmetadata:\n" $text $metadata -}}
{{- end }}
