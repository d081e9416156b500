{{- /* Additions for the hardware of a vendor. Each gives back YAML. */ -}}

{{- /* Whether a node set has NVIDIA GPUs: (dict "set" values). */ -}}
{{- define "slurm.vendor.hasGpus" -}}
{{- $found := false -}}
{{- range list .set.slurmd .set.podSpec -}}
  {{- $resources := (. | default dict).resources | default dict -}}
  {{- range list "limits" "requests" -}}
    {{- if hasKey (get $resources . | default dict) "nvidia.com/gpu" }}{{ $found = true }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- if $found }}true{{ end -}}
{{- end -}}

{{- /* A node set with what its hardware needs: (dict "root" $ "name" name "set" values). */ -}}
{{- define "slurm.vendor.nodeset" -}}
{{- $set := include "slurm.vendor.laidOver" (dict "set" .set "needs" (include "slurm.google.needs" . | fromYaml)) | fromYaml -}}
{{- $dcgm := .root.Values.vendor.nvidia.dcgm -}}
{{- if and $dcgm.enabled (include "slurm.vendor.hasGpus" (dict "set" $set)) -}}
  {{- $volume := dict "name" "dcgm-job-mapping" "hostPath" (dict "path" $dcgm.jobMappingDir "type" "DirectoryOrCreate") -}}
  {{- $mount := dict "name" "dcgm-job-mapping" "mountPath" $dcgm.jobMappingDir -}}
  {{- $_ := set $set.podSpec "volumes" (append ($set.podSpec.volumes | default list) $volume) -}}
  {{- $_ := set $set.slurmd "volumeMounts" (append ($set.slurmd.volumeMounts | default list) $mount) -}}
{{- end -}}
{{- toYaml $set -}}
{{- end -}}

{{- /* A node set over what its hardware needs: what the values say wins, lists are joined by name. */ -}}
{{- define "slurm.vendor.laidOver" -}}
{{- $set := .set -}}
{{- with .needs -}}
  {{- $needs := . -}}
  {{- range $part, $lists := dict "slurmd" (list "env" "volumeMounts") "podSpec" (list "volumes" "containers") -}}
    {{- range $list := $lists -}}
      {{- $needed := get (get $needs $part | default dict) $list | default list -}}
      {{- $said := get (get $set $part | default dict) $list | default list -}}
      {{- $names := list -}}
      {{- range $said }}{{ $names = append $names .name }}{{ end -}}
      {{- range $needed }}{{ if not (has .name $names) }}{{ $said = append $said . }}{{ end }}{{ end -}}
      {{- if $said }}{{ $_ := set (get $set $part) $list $said }}{{ end -}}
    {{- end -}}
  {{- end -}}
  {{- if and $set.extraConf (not (regexMatch "(?i)(^|\\s)gres=" $set.extraConf)) -}}
    {{- $_ := set $set "extraConf" (printf "%s Gres=%s" $set.extraConf $needs.extraConfMap.Gres) -}}
  {{- end -}}
  {{- range $key, $_ := $set.extraConfMap }}{{ if eq (lower $key) "gres" }}{{ $_ := unset $needs.extraConfMap "Gres" }}{{ end }}{{ end -}}
  {{- $set = mustMergeOverwrite (deepCopy $needs) $set -}}
{{- end -}}
{{- toYaml $set -}}
{{- end -}}

{{- /* A script over the GPUs of a job; the body sees $gpu. */ -}}
{{- define "slurm.vendor.forEachGpu" -}}
#!/bin/sh
# DCGM's exporter reads one file for each GPU, with the ids of the jobs that have it.
folder={{ .folder | squote }}
[ -d "$folder" ] || exit 0
gpus="${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-}}"
for gpu in $(printf '%s' "$gpus" | tr ',' ' '); do
  case "$gpu" in *[!0-9]*) continue ;; esac
  {{ .body }}
done
exit 0
{{- end -}}
