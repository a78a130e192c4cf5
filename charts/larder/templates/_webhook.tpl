{{/* One entry of the webhook's configuration: dict "root" $ "name" NAME "conditions" LIST "expressions" LIST of its namespaceSelector.

No caBundle and no certificate in any template: the operator (or cert-manager) writes both, and an upgrade or rollback keeps both.
A template with `lookup` would render the certificate, and a rollback would restore an old one.

failurePolicy is Ignore, and not a value: a missing cache costs speed, a pod that cannot start costs service. */}}
{{- define "larder.podWebhook" -}}
- name: {{ .name }}
  # No caBundle here: the operator (or cert-manager) writes the field, and an upgrade or rollback keeps the value.
  clientConfig:
    service:
      name: {{ include "larder.webhook" .root }}
      namespace: {{ .root.Release.Namespace }}
      path: /mutate-v1-pod
      port: 443
  rules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [pods]
      scope: Namespaced
  matchConditions:
    {{- range .conditions }}
    - name: {{ .name }}
      expression: {{ quote .expression }}
    {{- end }}
  {{- with .expressions }}
  namespaceSelector:
    matchExpressions:
      {{- range . }}
      - {{ toJson . }}
      {{- end }}
  {{- end }}
  # A missing cache costs speed, a pod that may not start costs service.
  failurePolicy: Ignore
  reinvocationPolicy: IfNeeded
  # Besides the pod the webhook only makes Events, and no Event for a dry run.
  sideEffects: NoneOnDryRun
  timeoutSeconds: {{ .root.Values.webhook.timeoutSeconds }}
  admissionReviewVersions: [v1]
{{- end }}
