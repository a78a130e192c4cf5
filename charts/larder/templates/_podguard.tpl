{{/* "true" where this release has the policy: the values ask for the policy, and the cluster knows the kind. */}}
{{- define "larder.podGuard" -}}
{{- and .Values.podGuard.enabled (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end }}
