{{- /* ConfigMaps with scripts of one kind: (dict "root" $ "prefix" "prolog" "scripts" map "refs" list). */ -}}
{{- define "slurm.scriptRefs" -}}
{{- $fullname := include "slurm.fullname" .root -}}
{{- $refs := list -}}
{{- if .scripts }}{{ $refs = append $refs (dict "name" (printf "%s-%s-scripts" $fullname .prefix)) }}{{ end -}}
{{- if and .root.Values.vendor.nvidia.dcgm.enabled (has .prefix (list "prolog" "epilog")) -}}
  {{- $refs = append $refs (dict "name" (printf "%s-%s-dcgm" $fullname .prefix)) -}}
{{- end -}}
{{- range .refs | default list }}{{ $refs = append $refs (ternary (dict "name" .) . (kindIs "string" .)) }}{{ end -}}
{{- toYaml $refs -}}
{{- end -}}

{{- define "slurm.configFileRefs" -}}
{{- $refs := list -}}
{{- if .Values.configFiles }}{{ $refs = append $refs (dict "name" (printf "%s-config-extra" (include "slurm.fullname" .))) }}{{ end -}}
{{- with include "slurm.google.config" . }}{{ $refs = append $refs (dict "name" .) }}{{ end -}}
{{- range .Values.configFileRefs | default list }}{{ $refs = append $refs (ternary (dict "name" .) . (kindIs "string" .)) }}{{ end -}}
{{- toYaml $refs -}}
{{- end -}}

{{- define "slurm.persistence" -}}
{{- $values := .Values.controller.persistence | default dict -}}
{{- $spec := include "slurm.pruned" (omit $values "storageClassName" "existingClaim") | fromYaml -}}
{{- if $values.existingClaim }}{{ $_ := set $spec "existingClaim" $values.existingClaim }}{{ end -}}
{{- $class := $values.storageClassName -}}
{{- if not (kindIs "invalid" $class) }}{{ $_ := set $spec "storageClassName" (ternary "" $class (eq $class "-")) }}{{ end -}}
{{- toYaml $spec -}}
{{- end -}}

{{- /* The sidecar runs slurmctld's own image; a part of another image is laid over it. */ -}}
{{- define "slurm.reconfigure" -}}
{{- $container := deepCopy (.Values.controller.reconfigure | default dict) -}}
{{- $main := .Values.controller.slurmctld.image -}}
{{- if and (kindIs "map" $container.image) (kindIs "map" $main) -}}
  {{- $_ := set $container "image" (mustMergeOverwrite (deepCopy $main) $container.image) -}}
{{- else if not $container.image -}}
  {{- $_ := set $container "image" $main -}}
{{- end -}}
{{- include "slurm.container" (dict "root" . "container" $container) -}}
{{- end -}}
