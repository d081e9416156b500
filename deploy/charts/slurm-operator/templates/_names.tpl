{{- /* Names, labels and images that several objects share. */ -}}

{{- define "operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "operator.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "operator.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "operator.webhookName" -}}
{{- printf "%s-webhook" (include "operator.fullname" .) -}}
{{- end -}}

{{- define "operator.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- /* Labels that never change: (dict "root" $ "component" "operator"). */ -}}
{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ include "operator.name" .root }}{{ if eq .component "webhook" }}-webhook{{ end }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "operator.selector" . }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: slurm-operator
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- /* Metadata of an object: (dict "root" $ "component" c "name" n), with "cluster" true where there is no namespace. */ -}}
{{- define "operator.metadata" -}}
name: {{ .name }}
{{- if not .cluster }}
namespace: {{ .namespace | default (include "operator.namespace" .root) }}
{{- end }}
labels:
  {{- include "operator.labels" . | nindent 2 }}
{{- end -}}

{{- /* Name of the ServiceAccount of a component: (dict "root" $ "component" c). */ -}}
{{- define "operator.account" -}}
{{- $values := get .root.Values .component -}}
{{- $made := ternary (include "operator.webhookName" .root) (include "operator.fullname" .root) (eq .component "webhook") -}}
{{- $values.serviceAccount.name | default (ternary $made "default" $values.serviceAccount.create) -}}
{{- end -}}

{{- /*
The image of a component as {image: string or mapping}: what it says itself, laid over the operator's:
(dict "root" $ "component" c).
*/ -}}
{{- define "operator.imageValues" -}}
{{- $image := (get .root.Values .component).image | default dict -}}
{{- $main := .root.Values.operator.image | default dict -}}
{{- if kindIs "string" $image -}}
  {{- toYaml (dict "image" $image) -}}
{{- else if $image.repository -}}
  {{- toYaml (dict "image" $image) -}}
{{- else if kindIs "string" $main -}}
  {{- toYaml (dict "image" $main) -}}
{{- else -}}
  {{- $own := dict -}}
  {{- range $key, $value := $image }}{{ if $value }}{{ $_ := set $own $key $value }}{{ end }}{{ end -}}
  {{- /* A tag of its own is not meant to lose against the other's digest. */ -}}
  {{- toYaml (dict "image" (merge $own (ternary (omit $main "digest") $main (hasKey $own "tag")))) -}}
{{- end -}}
{{- end -}}

{{- /* An image as one string: (dict "root" $ "image" string or mapping). */ -}}
{{- define "operator.image" -}}
{{- if kindIs "string" .image -}}
{{- .image -}}
{{- else if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (toString (.image.tag | default .root.Chart.Version)) -}}
{{- end -}}
{{- end -}}

{{- /* Names in a list, or in a text with commas, joined by commas. */ -}}
{{- define "operator.joined" -}}
{{- $words := list -}}
{{- range (ternary (splitList "," (toString .)) . (kindIs "string" .)) }}{{ with trim . }}{{ $words = append $words . }}{{ end }}{{ end -}}
{{- $words | uniq | join "," -}}
{{- end -}}

{{- /* A level by its name; numbers are those of the Go project's logger. */ -}}
{{- define "operator.logLevel" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ ternary "debug" "info" (gt (int .) 0) }}{{ end -}}
{{- end -}}

{{- define "operator.metricsAddress" -}}
{{- ternary "0" (printf ":%d" (int .)) (eq (int .) 0) -}}
{{- end -}}

{{- /* Whether the admission server makes its own certificate. */ -}}
{{- define "operator.ownCertificate" -}}
{{- if and .Values.webhook.enabled (not .Values.certManager.enabled) (not .Values.webhook.certSecretName) }}true{{ end -}}
{{- end -}}

{{- /* The Secret that is mounted as the admission server's certificate, if any. */ -}}
{{- define "operator.mountedCertificate" -}}
{{- if .Values.webhook.certSecretName -}}
{{- .Values.webhook.certSecretName -}}
{{- else if .Values.certManager.enabled -}}
{{- printf "%s-serving" (include "operator.webhookName" .) -}}
{{- end -}}
{{- end -}}
