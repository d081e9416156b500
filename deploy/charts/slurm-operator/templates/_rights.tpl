{{- /* A role and its binding: (dict "root" $ "component" c "name" n "rules" list "account" a), and "namespace" or "cluster". */ -}}
{{- define "operator.role" -}}
{{- $kind := ternary "ClusterRole" "Role" (default false .cluster) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  {{- include "operator.metadata" . | nindent 2 }}
rules:
{{ toYaml .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include "operator.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ include "operator.namespace" .root }}
{{- end -}}
