{{- /* Names, namespaces, labels and references that several objects share. */ -}}

{{- define "slurm.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slurm.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "slurm.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "slurm.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slurm.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "slurm.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/part-of: slurm
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Metadata of an object: (dict "root" $ "name" name "own" metadata out of values). */ -}}
{{- define "slurm.metadata" -}}
{{- $own := .own | default dict -}}
name: {{ .name }}
namespace: {{ include "slurm.namespace" .root }}
labels:
  {{- include "slurm.labels" .root | nindent 2 }}
  {{- with omit ($own.labels | default dict) "helm.sh/chart" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $own.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "slurm.slurmKeyRef" -}}
{{- $ref := .Values.slurmKey.secretRef | default dict -}}
name: {{ $ref.name | default (printf "%s-auth-slurm" (include "slurm.fullname" .)) }}
key: {{ $ref.key | default "slurm.key" }}
{{- end -}}

{{- define "slurm.jwtKeyRef" -}}
{{- $ref := .Values.jwtKey.secretRef | default dict -}}
name: {{ $ref.name | default (printf "%s-auth-jwt" (include "slurm.fullname" .)) }}
key: {{ $ref.key | default "jwt.key" }}
{{- end -}}

{{- define "slurm.sssdConfRef" -}}
{{- $ref := .Values.sssd.secretRef | default dict -}}
name: {{ $ref.name | default (printf "%s-sssd-conf" (include "slurm.fullname" .)) }}
key: {{ $ref.key | default "sssd.conf" }}
{{- end -}}

{{- /* Keys are ours to make only where no daemon outside Kubernetes has them already. */ -}}
{{- define "slurm.makesKeys" -}}
{{- if not (or .Values.controller.external (and .Values.accounting.enabled .Values.accounting.external)) -}}true{{- end -}}
{{- end -}}

{{- /* The ConfigMap with the JWKS, and the key within it. */ -}}
{{- define "slurm.jwksKeyRef" -}}
{{- $ref := .Values.jwksKeys.configMapRef | default dict -}}
name: {{ required "jwksKeys.configMapRef.name is needed, since jwksKeys.enabled is true: name the ConfigMap with the keys" $ref.name }}
key: {{ $ref.key | default "jwks.json" }}
{{- end -}}
